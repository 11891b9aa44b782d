// Loads programs. Among the extended operators: the header of a saved program says that it needs
// them.
#include "onnx/read.h"
#include "session/bodies.h"
#include "session/program.h"
#include "session/session.h"

namespace requant {

std::shared_ptr<Program> Program::Load(SavedFile file, const SessionOptions& options) {
  if (file.blobs.size() < 3) DamagedPlan("it has not the parts of a program");
  std::shared_ptr<Program> program(new Program);
  program->options_ = options;
  PlanOptions& planning = program->options_.plan;
  planning = {};
  InterfaceFields(file.archive, program->interface_);
  OptionFields(file.archive, planning);
  planning.threads = file.threads;
  Stage& head = program->head_;
  Stage& tail = program->tail_;
  head.planned = true;
  std::vector<uint32_t> plans;
  file.archive.Fields(tail.planned, plans);
  const auto bytes_of = [&file](size_t blob) { return SharedBytes{file.owner, file.blobs[blob]}; };
  program->middle_ = ReadOnnx(bytes_of(0));
  for (Stage* stage : {&head, &tail}) {
    const SharedBytes bytes = bytes_of(stage == &head ? 1 : 2);
    if (bytes.bytes.empty()) continue;
    if (stage->planned) {
      stage->session = std::make_unique<Session>(bytes, program->options_);
    } else {
      stage->model = PreparedModel::AsIs(ReadOnnx(bytes));
    }
  }
  program->Complete();
  std::vector<SharedBytes> bodies;
  for (size_t blob = 3; blob < file.blobs.size(); ++blob) bodies.push_back(bytes_of(blob));
  program->bodies_->Load(program->middle_, plans, bodies);
  return program;
}

}  // namespace requant
