#include "plan/save.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "base/checked_math.h"
#include "onnx/write.h"
#include "plan/archive.h"
#include "plan/build_id.h"
#include "plan/lower/parts.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

constexpr char kMagic[8] = {'\x93', 'R', 'Q', 'P', 'L', 'A', 'N', '\n'};
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint16_t pointer_bytes;
  uint8_t threads;
  uint8_t tools;   // 1: some steps' code is among the tools; the loader (web/session.ts) reads this
  uint64_t bytes;  // of the whole file
  uint64_t checksum;  // of all bytes after the header
  char build[32];
};
static_assert(sizeof(Header) == 64);

/// Every step is a bijection of the word it takes in, so that no single damaged word goes unseen.
uint64_t Checksum(std::span<const uint8_t> bytes) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd
  uint64_t lanes[4] = {1, 2, 3, bytes.size()};
  size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    for (size_t lane = 0; lane < 4; ++lane) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at + lane * 8, 8);
      lanes[lane] = std::rotl(lanes[lane] ^ word, 29) * kFactor;
    }
  }
  for (; at < bytes.size(); ++at) lanes[0] = std::rotl(lanes[0] ^ bytes[at], 29) * kFactor;
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum = std::rotl(sum ^ lane, 29) * kFactor;
  return sum;
}

/// The nodes that steps evaluate by their reference, with the constants they need.
Graph ReferenceNodes(const Plan& plan) {
  Graph out;
  out.opsets = plan.graph->opsets;
  std::map<const Value*, Value*> twins;
  const auto twin = [&](const Value* value) -> Value* {
    if (value == nullptr) return nullptr;
    Value*& made = twins[value];
    if (made == nullptr) {
      made = value->is_constant() ? out.AddConstant(value->name, value->constant)
                                  : out.AddValue(value->name, value->type);
    }
    return made;
  };
  for (const auto& step : plan.steps) {
    if (step->kind() != StepKind::kReference) continue;
    const Node* node = plan.graph->FindNode(step->name);
    std::vector<Value*> inputs, outputs;
    for (const Value* value : node->inputs) {
      const bool known = value == nullptr || twins.contains(value);
      inputs.push_back(twin(value));
      if (!known && !value->is_constant()) out.AddInput(inputs.back());
    }
    for (const Value* value : node->outputs) {
      outputs.push_back(twin(value));
      if (value) out.AddOutput(outputs.back());
    }
    out.AddNode(node->op_type, node->domain, std::move(inputs), std::move(outputs),
                node->attributes, node->name);
  }
  return out;
}

void InterfaceFields(PlanArchive& archive, Graph& graph) {
  std::vector<const Value*> inputs;
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) inputs.push_back(input);
  }
  for (const bool is_input : {true, false}) {
    const uint32_t count = archive.Count(is_input ? inputs.size() : graph.outputs().size(), 1);
    for (uint32_t i = 0; i < count; ++i) {
      std::string name;
      DType dtype = DType::kUndefined;
      Shape shape;
      if (!archive.reading()) {
        const Value* value = is_input ? inputs[i] : graph.outputs()[i];
        name = value->name;
        dtype = value->type.dtype;
        shape = value->type.StaticShape();
      }
      archive.Fields(name, dtype, shape);
      if (!archive.reading()) continue;
      Value* value = graph.FindValue(name);
      if (value == nullptr) value = graph.AddValue(name, {dtype, ToSymbolic(shape)});
      if (is_input) {
        graph.AddInput(value);
      } else {
        graph.AddOutput(value);
      }
    }
  }
}

void SlotFields(PlanArchive& archive, Slot& slot) {
  archive.Fields(slot.name, slot.dtype, slot.shape, slot.layout, slot.home, slot.bytes, slot.packed,
                 slot.planes, slot.root, slot.within, slot.offset, slot.input, slot.first_step,
                 slot.last_step);
  archive.Blob(slot.constant);
}

void StepFields(PlanArchive& archive, std::unique_ptr<Step>& step) {
  StepKind kind = archive.reading() ? StepKind{} : step->kind();
  archive.Fields(kind);
  if (archive.reading()) {
    // Where the header says nothing of tools they may be missing.
    const bool known = kind <= kLastStep && (archive.tools || kind < kFirstToolStep);
    if (known) step = NewStep(kind);
    if (step == nullptr) DamagedPlan("a step is of no known kind");
  }
  archive.Fields(step->name, step->op, step->kernel, step->tuning, step->inputs, step->outputs,
                 step->workspace, step->may_overwrite, step->macs, step->parts);
  step->Fields(archive);
}

void PlanFields(PlanArchive& archive, Plan& plan, Graph& graph) {
  InterfaceFields(archive, graph);
  archive.Fields(plan.arena_bytes, plan.arena_lower_bound, plan.packed_bytes, plan.used_memory,
                 plan.outputs);
  const bool reading = archive.reading();
  const uint32_t slots = archive.Count(plan.slots.size(), 1);
  if (reading) plan.slots.resize(slots);
  for (Slot& slot : plan.slots) SlotFields(archive, slot);
  const uint32_t steps = archive.Count(plan.steps.size(), 1);
  if (reading) plan.steps.resize(steps);
  for (auto& step : plan.steps) StepFields(archive, step);
  if (reading) plan.used_memory.resize(plan.steps.size());  // of a plan that somebody altered
}

/// Whatever a run uses as an index or an address must be inside.
void CheckPlan(const Plan& plan, const Graph& graph) {
  const auto check = [](bool right) {
    if (!right) DamagedPlan("its parts do not fit together");
  };
  const auto in_range = [](int index, size_t count) {
    return index >= 0 && static_cast<size_t>(index) < count;
  };
  const size_t slots = plan.slots.size();
  for (size_t i = 0; i < slots; ++i) {
    const Slot& slot = plan.slots[i];
    check(in_range(slot.root, slots) && static_cast<size_t>(slot.layout) <= 1);
    for (const int64_t dim : slot.shape) check(dim >= 0);
    const size_t bytes = DTypeBytes(slot.dtype, static_cast<size_t>(NumElements(slot.shape)));
    const size_t bits = slot.packed ? 4 : slot.planes == 0 ? 8 : slot.planes;
    check(bits <= 8 && slot.bytes == CheckedMul(bytes, bits) / 8);
    const Slot& root = plan.slots[static_cast<size_t>(slot.root)];
    check(root.root == slot.root && CheckedAdd(slot.within, slot.bytes) <= root.bytes);
    if (static_cast<size_t>(slot.root) != i) continue;
    switch (slot.home) {
      case Slot::Home::kArena:
        check(slot.first_step < 0 || (slot.offset % AlignedBuffer::kAlignment == 0 &&
                                      CheckedAdd(slot.offset, slot.bytes) <= plan.arena_bytes));
        break;
      case Slot::Home::kInput:
        check(in_range(slot.input, graph.inputs().size()) &&
              graph.inputs()[static_cast<size_t>(slot.input)]->type.StaticShape() == slot.shape);
        break;
      case Slot::Home::kConstant:
        check(slot.constant != nullptr);
        break;
      default:
        check(false);
    }
  }
  check(plan.outputs.size() == graph.outputs().size());
  for (const int slot : plan.outputs) check(in_range(slot, slots));
  for (const auto& step : plan.steps) {
    check(!step->outputs.empty());
    for (const int slot : step->inputs) check(in_range(slot, slots));
    for (const int slot : step->outputs) check(in_range(slot, slots));
    check(step->workspace == -1 || in_range(step->workspace, slots));
    const Parts& parts = step->parts;
    check(parts.count >= 1 && parts.count <= kMaxThreads);
    if (parts.count == 1) continue;
    check(in_range(parts.kernel, KernelEntries().size()) && parts.tile > 0 &&
          parts.total >= parts.tile * parts.count);
    for (const PartField& field : parts.fields) {
      check(field.offset <= kMaxParamsBytes - sizeof(size_t));
    }
  }
}

struct BlobRange {
  const void* data;
  size_t bytes;
};

bool NeedsTools(const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(),
                     [](const auto& step) { return step->kind() >= kFirstToolStep; });
}

size_t PaddedBlob(size_t bytes) {
  return CheckedAlign(CheckedAdd(bytes, kReadAhead), AlignedBuffer::kAlignment);
}

}  // namespace

std::vector<uint8_t> SavePlan(const Plan& plan, const Graph& graph) {
  std::vector<BlobRange> ranges;
  for (const AlignedBuffer& buffer : plan.packed) ranges.push_back({buffer.data(), buffer.size()});
  for (const Tensor& tensor : plan.constants) ranges.push_back({tensor.raw(), tensor.bytes()});
  for (const auto& weights : plan.file_weights) ranges.push_back({weights.data(), weights.size()});
  std::vector<uint64_t> sizes;
  size_t total = 0;
  std::vector<uint8_t> fields;
  PlanArchive archive(&fields);
  for (const BlobRange& range : ranges) {
    archive.blobs.push_back(range.data);
    sizes.push_back(range.bytes);
    total = CheckedAdd(total, PaddedBlob(range.bytes));
  }
  Graph reference = ReferenceNodes(plan);
  std::vector<uint8_t> nodes;
  if (!reference.nodes().empty()) nodes = WriteOnnx(reference);
  archive.Fields(sizes, nodes);
  // Writing changes nothing.
  PlanFields(archive, const_cast<Plan&>(plan), const_cast<Graph&>(graph));

  const size_t start = CheckedAlign(sizeof(Header) + fields.size(), AlignedBuffer::kAlignment);
  std::vector<uint8_t> file;
  file.reserve(CheckedAdd(start, total));
  file.resize(sizeof(Header));
  file.insert(file.end(), fields.begin(), fields.end());
  file.resize(start);
  for (const BlobRange& range : ranges) {
    const auto* bytes = static_cast<const uint8_t*>(range.data);
    const size_t end = CheckedAdd(file.size(), PaddedBlob(range.bytes));
    if (range.bytes > 0) file.insert(file.end(), bytes, bytes + range.bytes);
    file.resize(end);
  }
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.pointer_bytes = sizeof(void*);
  header.threads = static_cast<uint8_t>(plan.threads);
  header.tools = NeedsTools(plan) ? 1 : 0;
  header.bytes = file.size();
  header.checksum = Checksum(std::span(file).subspan(sizeof(Header)));
  std::memcpy(header.build, kBuildId, sizeof header.build);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

LoadedPlan LoadPlan(const SharedBytes& file, int threads) {
  Header header;
  if (file.bytes.size() < sizeof header) DamagedPlan("it ends too early");
  std::memcpy(&header, file.bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) DamagedPlan("it is no plan");
  if (header.version != kVersion || header.pointer_bytes != sizeof(void*) ||
      std::memcmp(header.build, kBuildId, sizeof header.build) != 0) {
    ForeignPlan("another version or variant saved it");
  }
  if (header.threads != threads) ForeignPlan("it was made for another number of threads");
  if (header.bytes != file.bytes.size()) DamagedPlan("its size is wrong");
  const std::span<const uint8_t> body = file.bytes.subspan(sizeof header);
  if (header.checksum != Checksum(body)) DamagedPlan("the checksum is wrong");

  auto plan = std::make_shared<Plan>();
  auto graph = std::make_shared<Graph>();
  const uint8_t* base = file.bytes.data();
  if (reinterpret_cast<uintptr_t>(base) % AlignedBuffer::kAlignment == 0) {
    plan->file = file.owner;
  } else {
    auto copy = std::make_shared<AlignedBuffer>(file.bytes.size());
    std::memcpy(copy->data(), base, file.bytes.size());
    base = copy->data();
    plan->file = std::move(copy);
  }
  PlanArchive archive(body);
  archive.tools = header.tools != 0;
  std::vector<uint64_t> sizes;
  const auto nodes = std::make_shared<std::vector<uint8_t>>();
  archive.Fields(sizes, *nodes);
  // The blobs lie at the end, one after the other.
  size_t total = 0;
  for (const uint64_t size : sizes) {
    if (size > body.size()) DamagedPlan("its weights are larger than the file");
    total = CheckedAdd(total, PaddedBlob(static_cast<size_t>(size)));
  }
  if (total > body.size()) DamagedPlan("its weights are larger than the file");
  const uint8_t* at = base + file.bytes.size() - total;
  for (const uint64_t size : sizes) {
    archive.blobs.push_back(at);
    plan->file_weights.emplace_back(at, static_cast<size_t>(size));
    at += PaddedBlob(static_cast<size_t>(size));
  }
  plan->graph = std::make_unique<Graph>();
  if (!nodes->empty()) *plan->graph = ReadOnnx({nodes, *nodes});
  archive.graph = plan->graph.get();
  PlanFields(archive, *plan, *graph);
  if (header.tools != (NeedsTools(*plan) ? 1 : 0)) DamagedPlan("its header does not fit");
  plan->threads = threads;
  CheckPlan(*plan, *graph);
  return {std::move(plan), std::move(graph)};
}

}  // namespace requant
