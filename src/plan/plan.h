// A Plan is a graph compiled for one set of input shapes: a list of steps with their kernels chosen
// and weights packed, and an offset in one arena for every intermediate. It is immutable, and
// sessions can share it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "ir/graph.h"
#include "ops/op.h"
#include "plan/packed_weights.h"
#include "plan/parts.h"
#include "plan/stages.h"

namespace requant {

class PlanArchive;
enum class StepKind : uint8_t;

/// How a rank-3 or rank-4 activation lies in memory; `shape` is always ONNX's (channels first).
/// Other ranks are always plain.
enum class Layout : uint8_t { kPlain, kChannelsLast };

/// One tensor of the plan. Slots that share memory (a Reshape's output, an in-place operator) have
/// the same root.
struct Slot {
  enum class Home : uint8_t { kArena, kConstant, kInput };

  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
  Layout layout = Layout::kPlain;
  Home home = Home::kArena;
  size_t bytes = 0;
  bool packed = false;  // two elements to a byte (plan/pack/pack_activations.h)
  /// The axis along which it grows from run to run (PlanOptions::state): its rows lie apart, with
  /// room for more tokens, so that only steps that know them may read it. -1: it does not grow.
  int grows_along = -1;
  /// Whether its tokens lie in memory as codes (kernels/token_codes), of a slot that grows.
  bool coded = false;
  uint8_t planes = 0;              // number of bit planes, or 0 where it has none
  int root = -1;                   // index of the slot that owns the memory (itself for a root)
  size_t within = 0;               // bytes into the root's memory (a part of a Concat)
  size_t offset = 0;               // kArena roots
  const void* constant = nullptr;  // kConstant roots
  int input = -1;                  // kInput roots: index among the graph inputs
  int first_step = -1;             // roots: lifetime in steps, inclusive
  int last_step = -1;
};

/// The addresses of one run's tensors. The inputs must outlive it.
class RunContext {
 public:
  /// Without a runner the calling thread computes everything. `room`: for every input that grows,
  /// the number of tokens for which its rows have room.
  RunContext(const std::vector<Slot>& slots, uint8_t* arena, std::span<const void* const> inputs,
             ParallelRunner* runner = nullptr, std::span<const int64_t> room = {})
      : slots_(slots), arena_(arena), inputs_(inputs), runner_(runner), room_(room) {}

  const void* Read(int slot) const {
    const Slot& own = slots_[static_cast<size_t>(slot)];
    const Slot& root = slots_[static_cast<size_t>(own.root)];
    if (root.home == Slot::Home::kArena) return arena_ + root.offset + own.within;
    if (root.home == Slot::Home::kConstant) return root.constant;
    return inputs_[static_cast<size_t>(root.input)];
  }
  void* Write(int slot) const { return const_cast<void*>(Read(slot)); }
  template <typename T>
  const T* Read(int slot) const {
    return static_cast<const T*>(Read(slot));
  }
  template <typename T>
  T* Write(int slot) const {
    return static_cast<T*>(Write(slot));
  }
  const Slot& slot(int index) const { return slots_[static_cast<size_t>(index)]; }
  /// The room of a slot that grows.
  int64_t Room(int index) const {
    const Slot& root = slots_[static_cast<size_t>(slot(index).root)];
    return room_[static_cast<size_t>(root.input)];
  }
  ParallelRunner* runner() const { return runner_; }

 private:
  const std::vector<Slot>& slots_;
  uint8_t* arena_;
  std::span<const void* const> inputs_;
  ParallelRunner* runner_;
  std::span<const int64_t> room_;
};

/// One kernel call.
class Step {
 public:
  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  virtual ~Step() = default;
  virtual void Run(const RunContext& context) const = 0;
  /// Makes the step leave so many elements between the pixels of its (channels-last) output;
  /// returns false when it cannot.
  virtual bool WriteWithStride(size_t /*elements*/) { return false; }
  /// The number of windows that the step gathers at a time if it was tuned, else 0.
  virtual int panel() const { return 0; }
  /// Members for saving plans (plan/archive.h): the kind of step, and its fields besides those
  /// below.
  virtual StepKind kind() const = 0;
  virtual void Fields(PlanArchive& archive) = 0;

  std::string name;    // name of the graph node
  std::string op;      // operators, as "Conv+Relu"
  std::string kernel;  // name of the kernel's row, or "reference"
  /// The key of this kind and shape of step in PlanOptions::tuned; empty where there is no choice.
  std::string tuning;
  std::vector<int> inputs;
  std::vector<int> outputs;
  int workspace = -1;          // slot that is alive during this step only
  bool may_overwrite = false;  // output 0 may use input 0's memory
  int64_t macs = 0;            // multiply-accumulates
  Parts parts;
};

struct ForcedKernel {
  std::string family;  // "conv_q8"
  std::string kernel;  // "conv_q8_scalar"
};

/// A tuning record: what was the fastest for a step.
struct Tuned {
  std::string kernel;
  int threads = 0;  ///< at most so many threads; 0: as without the record
  /// windows gathered at a time (ConvGeometry::panel_rows); 0: the kernel's own number
  int panel = 0;
  /// How the step's output is stored, where there is a choice (plan/pack/pack_activations.h).
  enum class Output { kUsual, kBytes, kPacked } output = Output::kUsual;

  bool operator==(const Tuned&) const = default;
};

/// Weights of 16 bits stay so in memory and become floats at every run, or become floats once.
enum class HalfPacking : uint8_t {
  kBySize,  // those of a large layer stay
  kStay,
  kWiden,
};

/// An input and the output that a run computes for it for the next run: a decoder's past keys, and
/// the present ones, which are these and those of the new tokens.
struct StatePair {
  std::string past, present;
  bool coded = false;  // keep float tokens [..., tokens, width] as codes (kernels/token_codes)
};

struct PlanOptions {
  RequantizeMode requantize = RequantizeMode::kUpward;
  /// Kernel rows to use for every step of their family that they fit.
  std::vector<ForcedKernel> force_kernels;
  /// Tuning records by Step::tuning, as measured on some machine. A kernel that does not exist, fit
  /// or run here is ignored.
  std::map<std::string, Tuned> tuned;
  /// Merges activations and residual additions into the kernel before them.
  bool fuse = true;
  /// Trades time for memory: weights of few bits stay packed even where a machine is faster on
  /// whole bytes, and values of at most 16 codes lie two to a byte (plan/pack/pack_activations.h).
  bool compact = false;
  /// Large steps are divided among so many threads, at most kMaxThreads; 0: as many as the session
  /// has. Results do not depend on it.
  int threads = 0;
  /// Rounds every float product before it is added, also with relaxed SIMD: float results are then
  /// the same bits in every module and on every machine, and take a few percent longer.
  bool portable = false;
  /// Whether attention, and products with blocks of 4 bits (MatMulNBits), code what they read in 8
  /// bits also where no operator asks for it. Sessions take what the model allows as the standard
  /// (ops/attention/int8_attention.h).
  std::optional<bool> int8_activations;
  /// The packed constants of the model, which all its plans share. Without them a plan packs all of
  /// its weights.
  std::shared_ptr<PackedWeights> packed;
  /// How weights of 16 bits are packed for float products.
  HalfPacking halves = HalfPacking::kBySize;
  /// Prepares for Session::Visit(), which looks at outputs behind their steps, in their layout;
  /// nothing keeps them.
  bool visit = false;
  /// Pairs of which the output may be the memory of the input, with the new tokens written behind
  /// the old ones. Plan::growing says of which pairs it is.
  std::vector<StatePair> state;
};

/// An output that a plan writes behind the contents of an input.
struct GrowingOutput {
  int output = -1, input = -1;  // their indices in the graph
  int axis = 0;                 // of the tokens
  bool coded = false;           // as Slot::coded
};

struct Plan {
  std::vector<Slot> slots;
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<int> outputs;  // slots of the graph outputs, plain layout
  std::vector<GrowingOutput> growing;
  std::vector<SharedWeights> packed;  // weights in the layouts of kernels
  std::vector<Tensor> constants;      // constants that slots point to
  size_t arena_bytes = 0;             // peak memory of all intermediates and workspaces
  size_t arena_lower_bound = 0;       // largest sum of simultaneously live tensors
  /// Bytes of the arena in use during each step, and after the last one; known before running.
  std::vector<size_t> used_memory;
  size_t packed_bytes = 0;
  std::unique_ptr<Graph> graph;  // reference steps evaluate its nodes
  int threads = 1;               // threads that the plan was made for
  /// PlanOptions that have no effect. Saved plans do not keep them.
  std::vector<std::string> warnings;
  /// For a plan that was loaded: its file, and the packed weights and constants in it.
  std::shared_ptr<const void> file;
  std::vector<std::span<const uint8_t>> file_weights;
};

/// Plans a model that is_static(). Throws kUnsupported, or kInvalidArgument for an unknown forced
/// kernel.
std::shared_ptr<const Plan> CompilePlan(SpecializedModel model, const PlanOptions& options);

}  // namespace requant
