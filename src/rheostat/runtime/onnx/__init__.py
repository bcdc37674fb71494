"""The only package that imports ONNX Runtime and onnx; importing any module of it turns ONNX Runtime's telemetry off.

Since 1.29 the wheels of ONNX Runtime report to their maker: on import they write a device id and a queue of events into
the home folder and start an uploader. The environment variable prevents all of that, but only if it is set before the
library is loaded. Python runs this file before any module of the package, and only modules of this package import the
library, so it always is.
"""

from __future__ import annotations

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
