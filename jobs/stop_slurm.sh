#!/usr/bin/env bash
# Stop what `jobs/start_slurm.sh FOLDER` started, its jobs included; nothing else is touched, and twice does no harm.
#
#   jobs/stop_slurm.sh FOLDER           keeps configuration, accounting and logs
#   jobs/stop_slurm.sh FOLDER --purge   removes the folder
set -uo pipefail

folder=$(realpath -m "${1:?usage: jobs/stop_slurm.sh FOLDER [--purge]}")
[ -d "$folder/run" ] || exit 0
export SLURM_CONF=$folder/etc/slurm.conf

runs() { # runs PID NAME
  [ -n "$1" ] && [ "$(cat "/proc/$1/comm" 2>/dev/null)" = "$2" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

end() { # end PIDFILE NAME: TERM, and KILL after 10 s
  local pid i; pid=$(cat "$1" 2>/dev/null)
  if runs "$pid" "$2"; then
    kill -TERM "$pid"
    for i in $(seq 100); do runs "$pid" "$2" || break; sleep 0.1; done
    if runs "$pid" "$2"; then kill -KILL "$pid"; fi
  fi
  rm -f "$1"
}

end_jobs() {
  local i
  timeout 5 scontrol ping 2>/dev/null | grep -q 'is UP' || return
  timeout 10 scancel --user=root >/dev/null 2>&1
  for i in $(seq 80); do [ -z "$(timeout 5 squeue -h 2>/dev/null)" ] && break; sleep 0.1; done
}

end_orphans() { # jobs and their guards that outlived their slurmd, known by the cluster in their environment
  local process variables
  for process in /proc/[0-9]*; do
    { variables=$(tr '\0' '\n' <"$process/environ"); } 2>/dev/null || continue
    grep -qx "SLURM_CONF=$SLURM_CONF" <<<"$variables" || continue
    if [ "$(cat "$process/comm" 2>/dev/null)" = slurmstepd ] || grep -q '^SLURM_JOB_ID=' <<<"$variables"; then
      kill -KILL "${process#/proc/}" 2>/dev/null
    fi
  done
}

end_jobs
for file in "$folder"/run/slurmd-*.pid; do [ -e "$file" ] && end "$file" slurmd; done
end "$folder/run/slurmctld.pid" slurmctld
end "$folder/run/slurmdbd.pid" slurmdbd
end "$folder/run/mariadb.pid" mariadbd
end "$folder/run/munged.pid" munged
end_orphans
for name in $(sed -n 's/^NodeName=\([^ ]*\).*/\1/p' "$SLURM_CONF" 2>/dev/null); do
  for group in /sys/fs/cgroup/*/slurm_"$name"; do
    if [ -d "$group" ]; then find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; fi # it refuses those in use
  done
done
if [ "${2:-}" = --purge ]; then rm -rf "$folder"; fi
