// A Plan is what a graph becomes for one set of input shapes: a list of steps with their kernels
// chosen and weights packed, and a place in one arena for every intermediate. It is immutable and
// can be shared by sessions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/parallel.h"
#include "ir/graph.h"
#include "ops/op.h"
#include "plan/parts.h"

namespace requant {

class PlanArchive;
enum class StepKind : uint8_t;

/// How a rank-3 or rank-4 activation lies in memory; `shape` is always the ONNX (channels-first)
/// one. Other ranks are always plain.
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
  bool packed = false;             // two elements to a byte (plan/pack_activations.h)
  uint8_t planes = 0;              // or, if not 0, so many planes of bits
  int root = -1;                   // index of the slot that owns the memory (itself for a root)
  size_t within = 0;               // bytes into the root's memory (a part of a Concat)
  size_t offset = 0;               // kArena roots
  const void* constant = nullptr;  // kConstant roots
  int input = -1;                  // kInput roots: index among the graph inputs
  int first_step = -1;             // roots: lifetime in steps, inclusive
  int last_step = -1;
};

/// Where the tensors of one run are. The inputs must outlive it.
class RunContext {
 public:
  /// Without a runner everything is computed by the calling thread.
  RunContext(const std::vector<Slot>& slots, uint8_t* arena, std::span<const void* const> inputs,
             ParallelRunner* runner = nullptr)
      : slots_(slots), arena_(arena), inputs_(inputs), runner_(runner) {}

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
  ParallelRunner* runner() const { return runner_; }

 private:
  const std::vector<Slot>& slots_;
  uint8_t* arena_;
  std::span<const void* const> inputs_;
  ParallelRunner* runner_;
};

/// One kernel call.
class Step {
 public:
  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  virtual ~Step() = default;
  virtual void Run(const RunContext& context) const = 0;
  /// Lets so many elements lie between the pixels of the (channels-last) output from now on; false
  /// when the step cannot.
  virtual bool WriteWithStride(size_t /*elements*/) { return false; }
  /// Windows that it gathers at a time, where that was tuned; else 0.
  virtual int panel() const { return 0; }
  /// For saved plans (plan/archive.h): what it is, and what it has beside the fields below.
  virtual StepKind kind() const = 0;
  virtual void Fields(PlanArchive& archive) = 0;

  std::string name;    // of the graph node it comes from
  std::string op;      // its operators, "Conv+Relu"
  std::string kernel;  // row of the kernel table, or "reference"
  /// What PlanOptions::tuned calls a step of this kind and shape; empty where there is no choice.
  std::string tuning;
  std::vector<int> inputs;
  std::vector<int> outputs;
  int workspace = -1;          // slot alive during this step only
  bool may_overwrite = false;  // input 0's memory may become output 0's
  int64_t macs = 0;            // multiply-accumulates
  Parts parts;
};

struct ForcedKernel {
  std::string family;  // "conv_q8"
  std::string kernel;  // "conv_q8_scalar"
};

/// What was found to be the fastest for a step.
struct Tuned {
  std::string kernel;
  int threads = 0;  ///< at most so many; 0: as without
  int panel = 0;    ///< windows that are gathered at a time (ConvGeometry::panel_rows); 0: as usual
  /// How the step's output lies where there is a choice (plan/pack_activations.h).
  enum class Output { kUsual, kBytes, kPacked } output = Output::kUsual;

  bool operator==(const Tuned&) const = default;
};

struct PlanOptions {
  RequantizeMode requantize = RequantizeMode::kUpward;
  /// Use this row of a kernel family for every step of that family which it can serve.
  std::vector<ForcedKernel> force_kernels;
  /// The row to use by Step::tuning, and for how many threads, as measured on some machine. Where
  /// it does not exist, fit or run here, the choice is as without.
  std::map<std::string, Tuned> tuned;
  /// Merge activations and residual additions into the producing kernel.
  bool fuse = true;
  /// Less memory, for some time: weights of few bits stay packed also where a machine is faster on
  /// whole bytes, and values of at most 16 codes lie two to a byte (plan/pack_activations.h).
  bool compact = false;
  /// Large steps are divided among so many threads, at most kMaxThreads; 0: as many as the session
  /// has. The results are the same.
  int threads = 0;
  /// Every float product is rounded before it is added, also with relaxed SIMD: float results are
  /// the same bits in every module and on every machine, and take a few percent longer.
  bool portable = false;
  /// For Session::Visit(): outputs are looked at behind their steps, in the layout they have;
  /// nothing of them is kept.
  bool visit = false;
};

struct Plan {
  std::vector<Slot> slots;
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<int> outputs;           // slots of the graph outputs, plain layout
  std::vector<AlignedBuffer> packed;  // weights in the kernels' layouts
  std::vector<Tensor> constants;      // keeps the constants alive that slots point to
  size_t arena_bytes = 0;             // peak memory of all intermediates and workspaces
  size_t arena_lower_bound = 0;       // largest sum of simultaneously live tensors
  /// Bytes of the arena in use during each step, and after the last one: known before running.
  std::vector<size_t> used_memory;
  size_t packed_bytes = 0;
  std::unique_ptr<Graph> graph;  // reference steps evaluate its nodes
  int threads = 1;               // that it was made for
  /// What of PlanOptions has no effect. Not in a saved plan.
  std::vector<std::string> warnings;
  /// A plan that was loaded: the file, and the packed weights and constants in it.
  std::shared_ptr<const void> file;
  std::vector<std::span<const uint8_t>> file_weights;
};

/// Plans a graph whose types are all static (see SpecializeGraph). Throws kUnsupported or
/// kInvalidArgument (unknown forced kernel).
std::shared_ptr<const Plan> CompilePlan(Graph graph, const PlanOptions& options);

/// Whether a plan can have this node: no control flow, and every output has a dtype and a shape of
/// numbers.
bool IsPlannable(const Node& node);
/// Whether that holds for every node: what CompilePlan takes.
bool IsStatic(const Graph& graph);

/// The graph for these input shapes with all types inferred, shape arithmetic folded, branches
/// taken that are known, and fusions found; maybe still not IsStatic (control flow, data-dependent
/// shapes). A copy, unless the graph is made for these shapes already and handed over by its only
/// owner.
std::unique_ptr<Graph> SpecializeGraph(std::shared_ptr<const Graph> graph,
                                       const std::vector<Shape>& input_shapes);

}  // namespace requant
