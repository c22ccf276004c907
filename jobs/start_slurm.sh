#!/usr/bin/env bash
# Start a real Slurm of simulated nodes on this machine, for tests: loopback only, everything it writes in one folder.
#
#   jobs/start_slurm.sh FOLDER && . FOLDER/env.sh && sinfo
#
# Starting again checks what is up and heals what has died. What the first start wrote stays until
# `jobs/stop_slurm.sh FOLDER --purge`. Partition `main` is the default one; jobs in `high` preempt those in `main`.
# Environment:
#   NODES=4 CPUS=2 MEMORY=4096 GPUS=2   simulated nodes, and what each of them claims to have (MEMORY in MiB); a job
#                                       that does not say --mem gets a core's share of it
#   PREFIX=n                            of the nodes' names; clusters that run at once need different ones
#   MAX_ARRAY=1001                      MaxArraySize of the site
#   ACCOUNTING=none                     or dbd: MariaDB and slurmdbd, for a real sacct
#   CONTROLLER=preempt_send_user_signal SlurmctldParameters of the site; without this one a preempted job is not warned
set -euo pipefail

folder=$(realpath -m "${1:?usage: jobs/start_slurm.sh FOLDER}")
nodes=${NODES:-4} cpus=${CPUS:-2} memory=${MEMORY:-4096} gpus=${GPUS:-2}
prefix=${PREFIX:-n} max_array=${MAX_ARRAY:-1001} accounting=${ACCOUNTING:-none}
controller=${CONTROLLER-preempt_send_user_signal}
export SLURM_CONF=$folder/etc/slurm.conf

fail() { echo "start_slurm: $*" >&2; exit 1; }

needs() { # needs COMMAND PACKAGE ...
  while [ $# -gt 0 ]; do
    command -v "$1" >/dev/null || fail "$1 is not here; apt-get install $2"
    shift 2
  done
}

alive() { # alive PIDFILE NAME: the process runs, and the number has not passed to another program
  local pid; pid=$(cat "$1" 2>/dev/null) || return 1
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] && ! grep -q '^State:.Z' "/proc/$pid/status"
}

wait_for() { # wait_for SECONDS WHAT COMMAND ...
  local end=$((SECONDS + $1)) what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { tail -n 15 "$folder"/log/*.log >&2 || true; fail "$what did not come up"; }
    sleep 0.1
  done
}

ports() { # ports N: distinct free ones, all bound at once
  python3 -c 'import socket, sys
bound = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(each.getsockname()[1] for each in bound))' "$1"
}

cgroups() { # whether memory can be limited by cgroups of version 1; otherwise Slurm looks at it once a second
  local probe
  [ -d /sys/fs/cgroup/freezer ] && probe=$(mktemp -d /sys/fs/cgroup/memory/probe.XXXXXX 2>/dev/null) && rmdir "$probe"
}

configure() {
  local port; read -r -a port < <(ports $((nodes + 3)))
  head -c 128 /dev/urandom >"$folder/munge/key"; chmod 400 "$folder/munge/key"
  local track="ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherParams=OverMemoryKill"
  echo "CgroupPlugin=autodetect" >"$folder/etc/cgroup.conf"
  if cgroups; then
    track="ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup"
    printf '%s\n' CgroupPlugin=cgroup/v1 ConstrainRAMSpace=yes ConstrainSwapSpace=yes AllowedSwapSpace=0 \
      >"$folder/etc/cgroup.conf"
  fi
  local record="AccountingStorageType=accounting_storage/none"
  if [ "$accounting" = dbd ]; then
    record="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=${port[1]}
AccountingStoragePass=$folder/run/munge.sock
AccountingStorageTRES=gres/gpu"
    configure_record "${port[1]}" "${port[2]}"
  fi
  configure_nodes "${port[@]:3}"
  cat - "$folder/etc/nodes.conf" >"$SLURM_CONF" <<CONF
ClusterName=sandbox
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=${port[0]}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
MpiDefault=none
SwitchType=switch/none
$track
JobAcctGatherFrequency=task=1
$record
# a dead node is noticed within about 10 s, and who ignores a TERM is killed after 5 s
SlurmctldTimeout=10
SlurmdTimeout=10
TCPTimeout=2
MessageTimeout=10
KillWait=5
# under five times MessageTimeout a controller that is away for a while drains the nodes
UnkillableStepTimeout=120
ReturnToService=2
MinJobAge=3600
CompleteWait=0
MaxJobCount=20000
MaxArraySize=$max_array
JobRequeue=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
DefMemPerCPU=$((memory / cpus))
${controller:+SlurmctldParameters=$controller}
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,bf_continue,default_queue_depth=1000
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
PartitionName=main Nodes=ALL Default=YES DefaultTime=60 MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=high Nodes=ALL DefaultTime=60 MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
CONF
  echo "export SLURM_CONF=$SLURM_CONF" >"$folder/env.sh"
}

configure_nodes() { # configure_nodes PORT ...: their lines, and GPUs that are links to /dev/null
  local i=0 port name gpu
  : >"$folder/etc/nodes.conf"; : >"$folder/etc/gres.conf"
  for port; do
    i=$((i + 1)); name=$prefix$i
    echo "NodeName=$name NodeHostname=localhost NodeAddr=127.0.0.1 Port=$port CPUs=$cpus CoresPerSocket=$cpus" \
         "RealMemory=$memory$([ "$gpus" = 0 ] || echo " Gres=gpu:$gpus") State=UNKNOWN" >>"$folder/etc/nodes.conf"
    [ "$gpus" = 0 ] && continue
    for gpu in $(seq 0 $((gpus - 1))); do ln -sf /dev/null "$folder/dev/$name-gpu$gpu"; done
    echo "NodeName=$name Name=gpu Count=$gpus File=$folder/dev/$name-gpu[0-$((gpus - 1))]" >>"$folder/etc/gres.conf"
  done
}

configure_record() { # configure_record PORT SQL_PORT
  cat >"$folder/etc/slurmdbd.conf" <<CONF
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock
LogFile=$folder/log/slurmdbd.log
PidFile=$folder/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$2
StorageUser=slurm
StoragePass=slurm
StorageLoc=accounting
CommunicationParameters=NoInAddrAny
CONF
  chmod 600 "$folder/etc/slurmdbd.conf"
}

start_munge() {
  if ! alive "$folder/run/munged.pid" munged; then
    rm -f "$folder/run/munge.sock"*
    munged --force --num-threads=2 --key-file="$folder/munge/key" --socket="$folder/run/munge.sock" \
      --pid-file="$folder/run/munged.pid" --seed-file="$folder/munge/seed" --log-file="$folder/log/munged.log" 9>&- 2>/dev/null
  fi
  wait_for 10 munged munge -n -S "$folder/run/munge.sock"
}

start_record() {
  local db=$folder/state/mysql port
  port=$(sed -n 's/^StoragePort=//p' "$folder/etc/slurmdbd.conf")
  [ -d "$db/mysql" ] || mariadb-install-db --no-defaults --user=root --datadir="$db" --skip-test-db \
    --auth-root-authentication-method=normal >"$folder/log/mariadb-install.log" 2>&1
  if ! alive "$folder/run/mariadb.pid" mariadbd; then
    setsid mariadbd --no-defaults --user=root --datadir="$db" --bind-address=127.0.0.1 --port="$port" \
      --socket="$db/sql.sock" --pid-file="$db/sql.pid" --innodb-buffer-pool-size=64M --innodb-log-file-size=16M \
      --innodb-lock-wait-timeout=900 --skip-name-resolve >"$folder/log/mariadb.log" 2>&1 9>&- </dev/null &
    echo $! >"$folder/run/mariadb.pid"
  fi
  wait_for 30 mariadbd mariadb-admin --no-defaults -uroot --socket="$db/sql.sock" ping
  mariadb --no-defaults -uroot --socket="$db/sql.sock" -e "CREATE DATABASE IF NOT EXISTS accounting;
    CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'slurm'; GRANT ALL ON accounting.* TO slurm@'127.0.0.1';"
  alive "$folder/run/slurmdbd.pid" slurmdbd || slurmdbd 9>&-
  wait_for 30 slurmdbd sacctmgr -n show cluster
}

start_nodes() {
  local name
  for name in $(sed -n 's/^NodeName=\([^ ]*\).*/\1/p' "$SLURM_CONF"); do
    alive "$folder/run/slurmd-$name.pid" slurmd || slurmd -N "$name" 9>&-
  done
  sleep 0.3 # what a crash left down or drained is known by then
  for name in $(sinfo -h -N -p main -o '%N %T' | awk '$2 ~ /^(down|drain|fail)/ {print $1}'); do
    scontrol update NodeName="$name" State=RESUME 2>/dev/null || true
  done
  wait_for 60 "every node" ready
}

ready() { # every node answers (no * after its state) and takes jobs
  local states; states=$(sinfo -h -N -p main -o '%T') && [ -n "$states" ] &&
    ! grep -qvE '^(idle|mixed|allocated|completing)$' <<<"$states"
}

[ "$(id -u)" = 0 ] || fail "only root can, for its daemons switch users"
needs munged munge slurmctld slurmctld slurmd slurmd sbatch slurm-client
case $accounting in
  none) ;;
  dbd) needs slurmdbd slurmdbd mariadbd mariadb-server ;;
  *) fail "ACCOUNTING=$accounting is neither none nor dbd" ;;
esac
mkdir -p "$folder"/{etc,log,run,state,spool,dev,munge}
chmod 755 "$folder"/{log,run}; chmod 711 "$folder/munge" # what munged insists on
exec 9>"$folder/run/lock"; flock 9 # of two starts at once the second finds it up
[ -s "$SLURM_CONF" ] || configure
start_munge
[ ! -s "$folder/etc/slurmdbd.conf" ] || start_record
alive "$folder/run/slurmctld.pid" slurmctld || slurmctld 9>&-
wait_for 20 slurmctld scontrol ping
start_nodes
echo "start_slurm: up after $SECONDS s: $(sinfo -h -p main -o '%D nodes %T'); . $folder/env.sh" >&2
