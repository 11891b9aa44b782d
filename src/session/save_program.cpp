// Saves a program; load_program.cpp reads it. The blobs are the middle and an open tail as ONNX,
// planned stages as files of their own (plan/saved/save.h, or a program), then the bodies' plans as
// files.
#include "base/operators.h"
#include "onnx/read.h"
#include "onnx/write.h"
#include "session/bodies.h"
#include "session/program.h"
#include "session/session.h"

namespace requant {

void OptionFields(PlanArchive& archive, PlanOptions& options) {
  bool int8_activations = options.int8_activations.value_or(false);
  archive.Fields(options.requantize, options.fuse, options.compact, int8_activations);
  options.int8_activations = int8_activations;
  const uint32_t forced = archive.Count(options.force_kernels.size(), 1);
  options.force_kernels.resize(forced);
  for (ForcedKernel& kernel : options.force_kernels) archive.Fields(kernel.family, kernel.kernel);
  const uint32_t tuned = archive.Count(options.tuned.size(), 1);
  auto next = options.tuned.begin();
  for (uint32_t i = 0; i < tuned; ++i) {
    std::string name;
    Tuned tuning;
    if (!archive.reading()) std::tie(name, tuning) = *next++;
    archive.Fields(name, tuning.kernel, tuning.threads, tuning.panel, tuning.output);
    if (archive.reading()) options.tuned[name] = tuning;
  }
}

std::vector<uint8_t> Program::Save(const Graph&, const std::vector<Shape>&) const {
  const auto bytes_of = [](const Stage& stage) -> std::vector<uint8_t> {
    const Graph* graph = stage.Interface();
    if (graph == nullptr) return {};
    return stage.planned ? stage.session->Save() : WriteOnnx(*graph);
  };
  std::vector<std::vector<uint8_t>> files = {WriteOnnx(middle_), bytes_of(head_), bytes_of(tail_)};
  std::vector<uint32_t> plans;  // plans of each body
  if (OperatorsLoaded()) {
    const Graph as_read = ReadOnnx({nullptr, files[0]});
    bodies_->Save(middle_, as_read, plans, files);
  }
  const std::vector<BlobRange> blobs(files.begin(), files.end());
  SavedWriter writer(blobs);
  // The archive takes references, but writing changes nothing.
  auto& self = const_cast<Program&>(*this);
  InterfaceFields(writer.archive, self.interface_);
  OptionFields(writer.archive, self.options_.plan);
  writer.archive.Fields(self.tail_.planned, plans);
  return writer.Finish(SavedKind::kProgram, options_.plan.threads, true);
}

}  // namespace requant
