"""Every result and every file of every study's run folder, by name and type, once.

A run folder holds

    settings.json    the format's version; what was asked, hashes of data and weights, versions of packages
    results.jsonl    {"key": ..., "rows": [...], "sha256": ...}, one line a result, in the order of computing
    files.sha256     checksums of the files below; checksums.py says which there are
    and the files below

Studies write through these names, readers read through them: a name or a field that drifts is a type error.
"""

from __future__ import annotations

from typing import Any

from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.probes.contexts import Context
from levelhead.results.keys import CsvFile, JsonFile, JsonLines, Key, KeyFamily, Layout, TextFile
from levelhead.results.records.about import About
from levelhead.results.records.audit import Headline, Mitigation, ProjectionCandidate
from levelhead.results.records.benchmarks import BenchmarkUsed, NullScore
from levelhead.results.records.cloze import ClozeCell, ClozeForm, OccupationLine, PromptAnswers
from levelhead.results.records.common import MeasuredVariant, PlacedModel, WordAssociation
from levelhead.results.records.comparison import Flip, ModelHeadScore, ModelPair, ScoredModelSummary
from levelhead.results.records.debias import (
    DebiasVerdict,
    LearnedGatesFound,
    LearnedMeasured,
    RandomMeasured,
    StrategyMeasured,
    Tradeoff,
)
from levelhead.results.records.glue import GlueCell, GlueCost, GlueRecipe, GlueTaskUsed, GlueUnit
from levelhead.results.records.heads import (
    ArcSheet,
    AttentionExample,
    CounterContrast,
    CounterHead,
    CounterTest,
    CrossFit,
    HeadScore,
    Removal,
    ScoreLine,
    SeatRow,
    SentenceLine,
    TwinSeat,
    WordList,
    WordsUsed,
)
from levelhead.results.records.localizing import (
    MapAgreement,
    MapLine,
    MappedHead,
    MappedObjective,
    ObjectiveLeftOut,
    ObjectiveMap,
    TopOfAll,
    TransferCell,
)
from levelhead.results.records.mitigating import (
    BiasDetected,
    BiasMoved,
    BiasSpilled,
    BudgetPlan,
    CandidateTested,
    MethodLeftOut,
    MethodTimed,
    ModelWritten,
    OddsMoved,
)
from levelhead.results.records.planted import PlantedBase, PlantSummary, PlantTrial
from levelhead.results.records.projections import (
    DepthLine,
    FrontierLine,
    Observation,
    PredictedLabels,
    SettingMeasured,
    SubspaceFit,
    Table5Line,
    Table6Line,
    Table7Line,
    TripleLine,
)
from levelhead.results.records.reproduction import ReproducedCell, Reproduction
from levelhead.results.records.survey import SurveyDifference, SurveyLine, SurveyTask
from levelhead.results.settings import (
    AtlasRunSettings,
    AuditRunSettings,
    BenchmarkRunSettings,
    GlueRunSettings,
    HeadComparisonSettings,
    HeadsRunSettings,
    MitigateRunSettings,
    PlantedRunSettings,
    PromptsRunSettings,
    SurveyRunSettings,
    SweepRunSettings,
)

# ---- every study that asks models

PLACES = CsvFile("places.csv", PlacedModel)
ABOUT = JsonFile("about.json", About)  # where somebody filled it in
SHARDS = "shards"  # a folder that is there while workers read what takes long; nobody else reads it

# ---- mitigations

PLANNED = Key("mitigate/plan", BudgetPlan)  # where there is a budget
DETECTED = Key("mitigate/detected", BiasDetected)
LEFT_OUT = Key("mitigate/left out", MethodLeftOut)
CANDIDATES_TESTED = Key("mitigate/candidates", CandidateTested)  # in the order of the tests
BIASES_MOVED = Key("mitigate/biases", BiasMoved)
ODDS_MOVED = Key("mitigate/odds", OddsMoved)
SPILLOVER = Key("mitigate/spillover", BiasSpilled)
WRITTEN = Key("mitigate/model", ModelWritten)
CHOSEN_MODEL = "model"  # a folder: the certified model, as transformers loads it
TIMES = CsvFile("times.csv", MethodTimed)
MITIGATE = Layout(
    "mitigate",
    "levelhead mitigate",
    MitigateRunSettings,
    (PLANNED, DETECTED, LEFT_OUT, CANDIDATES_TESTED, BIASES_MOVED, ODDS_MOVED, SPILLOVER, WRITTEN),
)

# ---- atlas

OBJECTIVES_LEFT_OUT = Key("left out", ObjectiveLeftOut)
OBJECTIVE_MAPS = KeyFamily("map/", ObjectiveMap)  # labels: objective/model, objective/null model 1 ...
MAPPED_OBJECTIVES = Key("objectives", MappedObjective)
MAPPED_HEADS = Key("heads", MappedHead)
MAP_AGREEMENTS = Key("agreements", MapAgreement)
TOP_OF_ALL = Key("top of all maps", TopOfAll)
TRANSFER = Key("transfer", TransferCell)
ATLAS = Layout(
    "atlas",
    "levelhead atlas",
    AtlasRunSettings,
    (OBJECTIVES_LEFT_OUT, MAPPED_OBJECTIVES, MAPPED_HEADS, MAP_AGREEMENTS, TOP_OF_ALL, TRANSFER),
    (OBJECTIVE_MAPS,),
)
MAPS_TABLE = CsvFile("maps.csv", MapLine)

# ---- heads

WORDS = Key("words", WordsUsed)
SEAT_ROWS = Key("seat/rows", SeatRow)  # by words' numbers of subword tokens, then by kinds of targets
SEAT = Key("seat", MeasuredVariant)  # of all words
TWIN_SEATS = KeyFamily("seat of twins/", TwinSeat)  # labels: twin 1 ...
SCORES = Key("scores", HeadScore)
REMOVALS = KeyFamily("ablation/", Removal)  # labels: the first and last head of a part
CROSS_FITS = KeyFamily("cross-fit/", CrossFit)  # labels: model, twin 1 ...
CROSS_FIT = Key("cross-fit", Measurement)  # agreement of heads, change on other words, largest held score
SOURCES = Key("scores/sources", Measurement)  # agreement of scores in a corpus with those in templates
AGREEMENT = Key("ablation", Measurement)  # of scores with removals
COUNTER = Key("counter", CounterTest)
COUNTER_SIDES = Key("counter/sides", CounterTest)
COUNTER_CONTRASTS = Key("counter/contrasts", CounterContrast)
COUNTER_HEADS = Key("counter/heads", CounterHead)
COUNTER_EXAMPLE = Key("counter/example", AttentionExample)
STRATEGIES = Key("debias/table", StrategyMeasured)
RANDOM_STRATEGIES = Key("debias/random", RandomMeasured)
DEBIAS_VERDICT = Key("debias/verdict", DebiasVerdict)
TOP_SWEEP = Key("debias/sweep", StrategyMeasured)
LEARNED = Key("debias/learned", LearnedMeasured)
LEARNED_GATES = Key("debias/gates", LearnedGatesFound)
TRADEOFFS = Key("debias/tradeoff", Tradeoff)
HEADS = Layout(
    "heads",
    "levelhead heads",
    HeadsRunSettings,
    (
        WORDS,
        SEAT_ROWS,
        SEAT,
        CROSS_FIT,
        SCORES,
        SOURCES,
        AGREEMENT,
        COUNTER,
        COUNTER_SIDES,
        COUNTER_CONTRASTS,
        COUNTER_HEADS,
        COUNTER_EXAMPLE,
        STRATEGIES,
        RANDOM_STRATEGIES,
        DEBIAS_VERDICT,
        TOP_SWEEP,
        LEARNED,
        LEARNED_GATES,
        TRADEOFFS,
    ),
    (TWIN_SEATS, CROSS_FITS, REMOVALS),
    grows="experiments",
)
WORD_LIST = JsonFile("words.json", WordList)
CONTEXTS = JsonLines("contexts.jsonl", Context)
SENTENCES = JsonLines("sentences.jsonl", SentenceLine)
HEAD_SCORES = CsvFile("head_scores.csv", ScoreLine)

# ---- published benchmarks

OWN_SCORES = Key("own tests", MeasuredVariant)  # of the model, before null models were asked
NULL_SCORES = KeyFamily("null model/", NullScore)  # labels: 1, 2 ...
BENCHMARK_SCORES = Key("scores", MeasuredVariant)  # held against null models, where there are some
BENCHMARK_USED = Key("benchmark", BenchmarkUsed)
BENCHMARK_MEASURES = Key("measures", MeasureInfo)  # how its scores are shown and judged
BENCHMARK = Layout(
    "measure",
    "levelhead measure",
    BenchmarkRunSettings,
    (OWN_SCORES, BENCHMARK_SCORES, BENCHMARK_USED, BENCHMARK_MEASURES),
    (NULL_SCORES,),
)

# ---- heads of several models

COMPARED_MODELS = Key("models", ScoredModelSummary)
COMPARED_SCORES = Key("scores", ModelHeadScore)
MODEL_PAIRS = Key("pairs", ModelPair)
FLIPS = Key("flips", Flip)
HEAD_COMPARISON = Layout(
    "compare_heads",
    "levelhead compare-heads",
    HeadComparisonSettings,
    (COMPARED_MODELS, COMPARED_SCORES, MODEL_PAIRS, FLIPS),
)

# ---- planted bias

PLANTED_BASE = Key("base", PlantedBase)
PLANT_TRIALS = KeyFamily("planted/", PlantTrial)  # labels: kind/seed
PLANT_SUMMARY = Key("summary", PlantSummary)
PLANTED = Layout(
    "planted", "levelhead planted", PlantedRunSettings, (PLANTED_BASE, PLANT_SUMMARY), (PLANT_TRIALS,)
)

# ---- projections

SUBSPACES = Key("subspaces", SubspaceFit)
NEXT_SENTENCES = Key("nsp", SettingMeasured)
INFERENCES = Key("nli", SettingMeasured)
DEPTH_NEXT_SENTENCES = Key("depth nsp", SettingMeasured)
DEPTH_INFERENCES = Key("depth nli", SettingMeasured)
INFERENCE_ANSWERS = KeyFamily("nli answers ", PredictedLabels)  # labels: first-last pair
ABILITY_ANSWERS = Key("ability answers", PredictedLabels)
DEPTH_INFERENCE_ANSWERS = KeyFamily("depth nli answers ", PredictedLabels)
DEPTH_ABILITY_ANSWERS = Key("depth ability answers", PredictedLabels)
DEPTH_SCREEN = KeyFamily("depth screen ", SettingMeasured)  # labels: the first layer, from 1
OBSERVATIONS = Key("observations", Observation)
CORRELATION = Key("correlation", Measurement)  # of Strength with fairness over the settings
SWEEP = Layout(
    "projections",
    "levelhead sweep",
    SweepRunSettings,
    (
        SUBSPACES,
        NEXT_SENTENCES,
        INFERENCES,
        DEPTH_NEXT_SENTENCES,
        DEPTH_INFERENCES,
        ABILITY_ANSWERS,
        DEPTH_ABILITY_ANSWERS,
        OBSERVATIONS,
        CORRELATION,
    ),
    (INFERENCE_ANSWERS, DEPTH_INFERENCE_ANSWERS, DEPTH_SCREEN),
)
TABLE5 = CsvFile("tables/table5.csv", Table5Line)
TABLE6 = CsvFile("tables/table6.csv", Table6Line)
TABLE7 = CsvFile("tables/table7.csv", Table7Line)
FRONTIER = CsvFile("tables/frontier.csv", FrontierLine)
OBSERVED = CsvFile("tables/observations.csv", Observation)
ASSOCIATIONS_TABLE = CsvFile("associations.csv", WordAssociation)  # where `levelhead seat --csv` says
TRIPLES_TABLE = CsvFile("triples.csv", TripleLine)  # where `levelhead nsp --csv` is told to write it
DEPTH_TABLE = CsvFile("tables/depth.csv", DepthLine)
RECIPES = "recipes"  # a folder of TOML files, one a setting, and the pairs that they name

# ---- CounterActs

CLOZE_CELLS = KeyFamily("cells/", ClozeCell)  # labels: model | variant
CLOZE_FORMS = KeyFamily("forms/", ClozeForm)
PROMPTS = Layout("counteracts", "levelhead prompts", PromptsRunSettings, (), (CLOZE_CELLS, CLOZE_FORMS))
OCCUPATIONS = CsvFile("occupations/{}.csv", OccupationLine)
ANSWERS = JsonLines("answers/{}.jsonl", PromptAnswers)

# ---- GLUE

GLUE_RECIPES = Key("recipes", GlueRecipe)
GLUE_TASKS = Key("tasks", GlueTaskUsed)
GLUE_UNITS = KeyFamily("unit/", GlueUnit)  # labels: task/recipe/seed
GLUE_CELLS = Key("cells", GlueCell)
GLUE_COSTS = Key("costs", GlueCost)
GLUE = Layout(
    "glue",
    "levelhead glue",
    GlueRunSettings,
    (GLUE_RECIPES, GLUE_TASKS, GLUE_CELLS, GLUE_COSTS),
    (GLUE_UNITS,),
)
CHECKPOINTS = "checkpoints"  # a folder of unfinished trainings; none is left when the run is whole

# ---- audit

MEASURED = KeyFamily("measure/", MeasuredVariant)  # labels: a group of measures
VERIFIED = KeyFamily("verify/", MeasuredVariant)  # labels: variant/group
CANDIDATES = Key("candidates", ProjectionCandidate)
NLI_CANDIDATES = Key("nli candidates", ProjectionCandidate)
MITIGATIONS = Key("mitigate", Mitigation)
NLI_MITIGATIONS = Key("nli mitigate", Mitigation)
HEADLINE = Key("headline", Headline)
MEASURES = Key("measures", MeasureInfo)  # of the user's own
AUDIT = Layout(
    "audit",
    "levelhead audit",
    AuditRunSettings,
    (CANDIDATES, NLI_CANDIDATES, MITIGATIONS, NLI_MITIGATIONS, HEADLINE, MEASURES),
    (MEASURED, VERIFIED),
)
ARCS = JsonFile("arcs.json", ArcSheet)
REPORT = TextFile("report.html")
HEADS_PART, PROMPTS_PART = "heads", "prompts"  # folders of the runs inside an audit
FIRST_LOOK = "first-look"  # the folder of the audit that an audit begins with
ARENA_PART = "mitigations"  # of the mitigations that are certified
GLUE_PART = "glue"  # and of what the model can still learn, where that was asked
CHANGE_PART = "change"  # the end of a verified label: the bias that a projection was chosen by, item by item

FIGURES = "figures"  # a folder of SVG files

# ---- survey

SURVEY_MEASURES = Key("measures", MeasureInfo)  # of the user's own
SURVEY = Layout("survey", "levelhead survey", SurveyRunSettings, (SURVEY_MEASURES,), grows="models")
SURVEY_TASKS = JsonFile(
    "tasks/{}.json", SurveyTask
)  # labels: bias | model; in no order, so workers can write
SURVEY_TABLE = CsvFile("survey.csv", SurveyLine)
SURVEY_DIFFERENCES = CsvFile("differences.csv", SurveyDifference)
SURVEY_PARQUET = "survey.parquet"  # the table once more, where pandas and pyarrow are there

# ---- beside a paper, in the run folders of the studies that follow one

REPRODUCED_CELLS = CsvFile("reproduce.csv", ReproducedCell)
REPRODUCTION = JsonFile("reproduce.json", Reproduction)

# ---- hashes by which readers know that two runs were asked about the same

WEIGHTS_HASH = "weights"  # of a model, in every run of one model
WORDS_HASH = "words"  # of the word list, in audits and runs of heads
PROMPTS_HASH = "prompts and words"  # of CounterActs
OPENING_FACT = "opening"  # what every text began with: <bos>, [CLS], "query: ", none; no hash, but held alike
DOUBT_FACT = "doubt"  # why no verdict may rest on a model's numbers; only where there is a doubt
PROBE_HASH = "probe"  # the pairs about occupations, in a sweep

LAYOUTS: tuple[Layout[Any], ...] = (
    HEADS,
    HEAD_COMPARISON,
    PLANTED,
    SWEEP,
    PROMPTS,
    GLUE,
    AUDIT,
    SURVEY,
    MITIGATE,
    ATLAS,
    BENCHMARK,
)
