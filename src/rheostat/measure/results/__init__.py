"""The schema of every results file: a frozen dataclass per kind, and the one place that writes and reads them."""

from rheostat.measure.results.bench import (
    BenchPart,
    BenchResults,
    BenchRow,
    BenchSubject,
    ExecutedFlops,
    Fit,
    MachineStates,
    ModelBench,
)
from rheostat.measure.results.benchmark import BenchmarkResults, TrainingResults
from rheostat.measure.results.files import (
    VERSION,
    Collection,
    Results,
    check_results_target,
    read_all,
    read_results,
    read_sweep,
    results_json,
    write_results,
)
from rheostat.measure.results.govern import GovernResults
from rheostat.measure.results.ngram import NGramResults, NGramSubject, SplitQuality
from rheostat.measure.results.shared import (
    NOT_RECORDED,
    KeystrokeFigures,
    LatencyFigures,
    OriginJson,
    Origins,
    Provenance,
    QualityFigures,
    engine_title,
)
from rheostat.measure.results.sweep import Allocation, SweepResults, SweepRow, SweepSubject, SweptPoint
from rheostat.measure.results.typing import TypingPredictor, TypingResults, TypingRow, TypingText

__all__ = [
    "NOT_RECORDED",
    "VERSION",
    "Allocation",
    "BenchPart",
    "BenchResults",
    "BenchRow",
    "BenchSubject",
    "BenchmarkResults",
    "Collection",
    "ExecutedFlops",
    "Fit",
    "GovernResults",
    "KeystrokeFigures",
    "LatencyFigures",
    "MachineStates",
    "ModelBench",
    "NGramResults",
    "NGramSubject",
    "OriginJson",
    "Origins",
    "Provenance",
    "QualityFigures",
    "Results",
    "SplitQuality",
    "SweepResults",
    "SweepRow",
    "SweepSubject",
    "SweptPoint",
    "TrainingResults",
    "TypingPredictor",
    "TypingResults",
    "TypingRow",
    "TypingText",
    "check_results_target",
    "engine_title",
    "read_all",
    "read_results",
    "read_sweep",
    "results_json",
    "write_results",
]
