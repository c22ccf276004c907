import csv
import json
import math

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from pyarrow import parquet
from scipy import stats

from rllc import clustering
from rllc.report import agreement, contents, curves, ends, members, overview, pairs, scores, silhouette, source, style, traces
from tests_report_conftest import options  # noqa: F401
