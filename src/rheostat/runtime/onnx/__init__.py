"""The only package that imports ONNX Runtime and onnx. Importing any of its modules turns off ONNX Runtime's telemetry.

Since 1.29 the wheels of ONNX Runtime report to their maker: on import they write a device id and a queue of events into
the home folder and start an uploader. The environment variable prevents all of that, but only if it is set before the
library is loaded. Python runs this file before any other module of the package, and no other package imports the
library, so it always is.
"""

from __future__ import annotations

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
