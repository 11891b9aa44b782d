/**
 * Requant: quantization of neural networks and inference in integers, in browsers and in Node.
 *
 * @packageDocumentation
 */

export { diagnose, mixedPrecision } from './analysis.js';
export type { Fetches, RunOptions } from './fetches.js';
export type {
  Analysis,
  Diagnosis,
  FrontierPoint,
  MixedPrecision,
  MixedPrecisionOptions,
  OperatorAnalysis,
  ValueAnalysis,
  Width,
} from './analysis.js';
export { Calibration, type CalibrationOptions } from './calibration.js';
export { compare } from './compare.js';
export type {
  CompareOptions,
  CompareProgress,
  CompareReport,
  CompareSample,
  LayerDifference,
  OutputDifference,
  PartDifference,
  SampleResult,
} from './compare.js';
export type {
  GivenScale,
  Observer,
  OperatorConfig,
  QuantizeConfig,
  Recovery,
  Rounding,
  Target,
  TensorConfig,
} from './config.js';
export { targets } from './config.js';
export { engineInfo } from './engine.js';
export type { EngineInfo } from './engine.js';
export { env } from './env.js';
export type { Env, WasmBinary, WasmEnv, WasmFile, WorkerFile } from './env.js';
export { RequantError } from './errors.js';
export type { RequantErrorCode, RequantErrorDetails } from './errors.js';
export type { Feeds } from './heap.js';
export type { EnginePart, Variant } from './load_core.js';
export { Model, loadModel, parseModel } from './model.js';
export type {
  FloatOperator,
  LoadOptions,
  ModelInfo,
  NodeInfo,
  OptimizeOptions,
  OptimizeReport,
  PlanOptions,
  RequantizeMode,
  ValueInfo,
} from './model.js';
export { generateC, generateJson } from './generate.js';
export type { GenerateCOptions, GenerateJsonOptions, GeneratedC } from './generate.js';
export { measureLatencies } from './latencies.js';
export type { Latencies, LatencyOptions } from './latencies.js';
export { Partition, PartitionedSession, partition } from './partition.js';
export type { Backend, Part, PartRunner, PartitionOptions } from './partition.js';
export { train } from './train.js';
export type { TrainOptions, TrainProgress } from './train.js';
export { tune } from './tune.js';
export type { TuneOptions, TuneProgress, TuneResult, TunedStep } from './tune.js';
export { mergeTunings } from './tuning.js';
export type { Tuning, TuningRecord } from './tuning.js';
export { QuantizedModel, configOf, quantize, scalesOf } from './quantize.js';
export type {
  ExportOptions,
  OnnxFormat,
  OperatorRecord,
  QuantizationRecord,
  QuantizeOptions,
  QuantizeProgress,
  RecoveryRecord,
  Samples,
  TensorRecord,
} from './quantize.js';
export { readQuantized } from './read_quantized.js';
export { BoundRun } from './bound_run.js';
export { InferenceSession } from './session.js';
export type { Plan, PlanMemory, PlanStep, StepProfile, ValueMetadata } from './session.js';
export type { OrtSessionOptions, PlanningOptions, SessionOptions } from './session_options.js';
export type { LoadProgress, Source } from './source.js';
export { substitute, substitutions } from './substitute.js';
export type {
  SubstituteOptions,
  SubstitutedOperator,
  SubstitutionPass,
  SubstitutionReport,
} from './substitute.js';
export { Tensor } from './tensor.js';
export type { TensorDataMap, TensorInput, TensorType } from './tensor.js';
export { toChromeTrace } from './trace.js';
export type { ChromeTrace, ChromeTraceEvent } from './trace.js';
export { onnxRuntime, verify } from './verify.js';
export type {
  EngineRun,
  EngineTensor,
  Likeness,
  OnnxRuntime,
  OnnxRuntimeSession,
  VerifiedOutput,
  VerifyOptions,
  VerifyProgress,
  VerifyReport,
  WorstSample,
} from './verify.js';
export { version } from './version.js';
export {
  WorkerModel,
  WorkerQuantizedModel,
  WorkerSession,
  RequantWorker,
  createWorker,
} from './worker.js';
export { type WeightsOptions, packWeights, quantizeDynamic, quantizeWeights } from './weights.js';
