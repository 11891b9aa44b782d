/**
 * Requant quantizes neural networks and runs them in integers, in browsers and in Node.
 *
 * @packageDocumentation
 */

export { default } from './onnxruntime.js';
export { diagnose, mixedPrecision } from './analyze/analysis.js';
export type { Fetches, RunOptions } from './session/fetches.js';
export type {
  Diagnosis,
  FrontierPoint,
  MixedPrecision,
  MixedPrecisionOptions,
  Width,
} from './analyze/analysis.js';
export type { Analysis, OperatorAnalysis, ValueAnalysis } from './quantize/record.js';
export { Calibration, type CalibrationOptions } from './quantize/calibration.js';
export { compare } from './analyze/compare.js';
export type {
  CompareOptions,
  CompareProgress,
  CompareSample,
  SampleResult,
} from './analyze/compare.js';
export type {
  CompareReport,
  LayerDifference,
  MetricValues,
  OutputDifference,
  PartDifference,
} from './analyze/compare_report.js';
export type {
  GivenScale,
  OperatorConfig,
  QuantizeConfig,
  Recovery,
  Target,
} from './quantize/config.js';
export type {
  Observer,
  Rounding,
  SlotConfig,
  SlotConfigs,
  TensorConfig,
} from './quantize/tensor_options.js';
export { targets } from './quantize/config.js';
export {
  AciqObserver,
  FakeQuantize,
  type GridGradients,
  IsotoneObserver,
  KlObserver,
  MinMaxObserver,
  MovingAverageObserver,
  MseObserver,
  type ObserverOptions,
  PercentileObserver,
  TensorObserver,
} from './quantize/observers.js';
export { engineInfo } from './engine/engine_info.js';
export type { EngineInfo } from './engine/engine_info.js';
export { env } from './worker/proxied.js';
export type { Env, WasmBinary, WasmEnv } from './engine/env.js';
export type { WasmFile, WorkerFile } from './own_files.js';
export { RequantError } from './base/errors.js';
export type { RequantErrorCode, RequantErrorDetails } from './base/errors.js';
export type { Feeds } from './engine/tensors.js';
export type { LogLevel } from './base/log.js';
export type {
  ColorFormat,
  ImageNorm,
  TensorFromImageOptions,
  TensorToImageOptions,
} from './base/tensor_image.js';
export type { CalibratedQuantization, SessionQuantization } from './session/quantize_first.js';
export type { EnginePart, Variant } from './engine/load_core.js';
export { Model } from './model/model.js';
export { loadModel, parseModel } from './model/load_model.js';
export type {
  Decomposition,
  FloatOperator,
  LegalizeOptions,
  LegalizedModel,
  OptimizeOptions,
  OptimizeReport,
  PlanOptions,
  WeightLayer,
} from './model/model.js';
export type { ModelInfo, NodeInfo, ValueInfo } from './model/model_info.js';
export type { OnnxFiles, SaveOptions } from './model/onnx_files.js';
export type { TfliteEnd, TfliteFile, TfliteOptions, TfliteReport } from './model/tflite.js';
export type { ExternalData, ExternalDataFile, LoadOptions } from './model/load_options.js';
export type { RequantizeMode } from './model/planning.js';
export { generateC, generateJson } from './export/generate.js';
export type {
  GenerateCOptions,
  GenerateJsonOptions,
  GeneratedC,
  VendorCall,
} from './export/generate.js';
export { measureLatencies } from './analyze/latencies.js';
export type { Latencies, LatencyOptions } from './analyze/latencies.js';
export { extract } from './export/extract.js';
export type { ExtractOptions } from './export/extract.js';
export { partition } from './export/partition.js';
export type { PartitionOptions } from './export/partition.js';
export { Partition, PartitionedSession, loadPartition } from './export/partitioned.js';
export type { LoadPartitionOptions, MakeRunner } from './export/partitioned.js';
export type { Backend, CompiledPart, Composite, Part, PartRunner } from './export/backend.js';
export { nodeDetails } from './export/node_details.js';
export type { AttributeValue, NodeDetails, ValueDetails } from './export/node_details.js';
export type { Pattern, PatternChain, PatternNode } from './export/pattern.js';
export { train } from './train/train.js';
export type { TrainOptions, TrainProgress } from './train/train_options.js';
export { tune } from './tune/tune.js';
export type { TuneOptions, TuneProgress, TuneResult, TunedStep } from './tune/tune.js';
export { mergeTunings } from './model/tuning.js';
export type { Tuning, TuningRecord } from './model/tuning.js';
export { type QuantizedBy, quantize } from './search/quantize.js';
export { configOfAttempt } from './search/recoveries.js';
export { QuantizedModel } from './quantize/quantized_model.js';
export { configOf, scalesOf } from './quantize/record.js';
export type { Samples } from './quantize/calibrate.js';
export type {
  Budget,
  Floor,
  QuantizeOptions,
  RecoveryLevel,
  SearchOptions,
  SearchProgress,
} from './search/search_options.js';
export type { BitFormat, SearchAttempt, SearchPoint, SearchReport } from './base/search_report.js';
export type { Box, Detection, NmsOutputs, TrueBox } from './metrics/boxes.js';
export type { MetricSample, Outputs } from './metrics/metric.js';
export type { MetricUnit } from './metrics/unit.js';
export type { OwnMetric } from './metrics/own.js';
export type { MetricName, MetricSpec, NamedMetric } from './metrics/table.js';
export type { ExportOptions, OnnxFormat } from './quantize/quantized_model.js';
export type { QuantizeProgress } from './quantize/calibrator.js';
export type {
  OperatorRecord,
  QuantizationRecord,
  RecoveryRecord,
  TensorRecord,
} from './quantize/record.js';
export { readQuantized } from './quantize/read_quantized.js';
export { registerPass, removePass } from './extend/passes.js';
export type { OperatorPattern, PassDefinition, PassMatch, PassPattern } from './extend/passes.js';
export type {
  FloatAttribute,
  NewValue,
  PassBuilder,
  MatchedNode,
  MatchedValue,
  NewAttribute,
  NewOperatorOptions,
  Operand,
} from './extend/builder.js';
export { registerOperator, removeOperator } from './extend/operators.js';
export type { OperatorDefinition } from './extend/operators.js';
export type { OperandType, OperatorAttributes } from './extend/core_values.js';
export { interpret } from './extend/interpret.js';
export type { InterpretOptions, InterpretedValue } from './extend/interpret.js';
export { BoundRun } from './session/bound_run.js';
export { InferenceSession } from './session/session.js';
export { SessionState } from './session/state.js';
export type { StateEntry, StateOptions } from './session/state.js';
export type { StatePair } from './session/state_pairs.js';
export type {
  Instruction,
  Plan,
  PlanMemory,
  PlanStep,
  ProgramRegister,
  StepProfile,
  ValueMetadata,
} from './session/plan.js';
export type {
  OrtSessionOptions,
  OutputLocation,
  SessionOptions,
} from './session/session_options.js';
export type { PlanningOptions } from './model/planning.js';
export type { LoadProgress, Source } from './base/source.js';
export { substitute, substitutions } from './analyze/substitute.js';
export type {
  SubstituteOptions,
  SubstitutedOperator,
  SubstitutionPass,
  SubstitutionReport,
} from './analyze/substitute.js';
export { packSequence, unpackMaps, unpackSequence } from './base/sequence.js';
export { Tensor } from './base/tensor.js';
export type { TensorDataMap, TensorInput, TensorType } from './base/tensor.js';
export type { TensorLike } from './base/tensor_like.js';
export { toChromeTrace } from './session/trace.js';
export type { ChromeTrace, ChromeTraceEvent } from './session/trace.js';
export { verify } from './analyze/verify.js';
export { onnxRuntime } from './analyze/onnx_runtime.js';
export type { VerifyOptions, VerifyProgress } from './analyze/verify.js';
export type {
  EngineRun,
  EngineTensor,
  Likeness,
  VerifiedOutput,
  VerifyReport,
  WorstSample,
} from './analyze/verification.js';
export type { OnnxRuntime, OnnxRuntimeSession } from './analyze/onnx_runtime.js';
export { version } from './base/version.js';
export { RequantWorker, createWorker } from './worker/worker.js';
export { WorkerModel, WorkerQuantizedModel, WorkerSession } from './worker/remote.js';
export { WorkerState } from './worker/remote_state.js';
export {
  type DynamicOptions,
  type WeightsMethod,
  type WeightsOptions,
  type WeightsProgress,
  type WeightsRotation,
  packWeights,
  quantizeDynamic,
  quantizeWeights,
} from './quantize/weights.js';
