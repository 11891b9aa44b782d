// Translates between JavaScript and the core, and does nothing else. bindings/README.md is the
// contract.
#include <emscripten/bind.h>
#include <emscripten/emscripten.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "api/requant.h"
#include "handles.h"
#include "options.h"
#include "session_handle.h"
#include "threads.h"

namespace requant {

namespace bindings {

using emscripten::val;

namespace {

val ErrorObject(const char* code, const std::string& message, const ErrorContext& context) {
  val error = val::object();
  error.set("code", std::string(code));
  error.set("message", message);
  error.set("node", context.node);
  error.set("value", context.value);
  error.set("hint", context.hint);
  val out = val::object();
  out.set("requantError", error);
  return out;
}

}  // namespace

val GuardCall(val (*body)(const void* self), const void* self) {
  try {
    return body(self);
  } catch (const Error& error) {
    return ErrorObject(ErrorCodeName(error.code()), error.message(), error.context());
  } catch (const std::bad_alloc&) {
    return ErrorObject("OUT_OF_MEMORY", "the wasm memory is exhausted",
                       {.hint = "release sessions and models that are no longer needed"});
  } catch (const std::exception& error) {
    return ErrorObject("INTERNAL", error.what(), {});
  }
}

TensorMap ReadFeeds(const val& names, const val& types, const val& dims, const val& pointers) {
  TensorMap feeds;
  const bool given = !pointers.isUndefined();
  const auto count = names["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    Shape shape;
    for (const double dim : emscripten::vecFromJSArray<double>(dims[i])) {
      shape.push_back(static_cast<int64_t>(dim));
    }
    const std::string name = names[i].as<std::string>();
    const DType dtype = DTypeFromName(types[i].as<std::string>());
    if (DTypeBits(dtype) == 0) {
      Fail(ErrorCode::kTypeMismatch, "tensors of this type cannot be fed", {.value = name});
    }
    feeds[name] = given
                      ? Tensor::Unowned(dtype, std::move(shape), Pointer(pointers[i].as<double>()))
                      : Tensor(dtype, std::move(shape));
  }
  return feeds;
}

val TensorToJs(const std::string& name, const Tensor& tensor) {
  val item = val::object();
  item.set("name", name);
  item.set("type", std::string(DTypeName(tensor.dtype())));
  val dims = val::array();
  for (const int64_t dim : tensor.shape()) dims.call<void>("push", static_cast<double>(dim));
  item.set("dims", dims);
  item.set("pointer", Address(tensor.raw()));
  item.set("size", static_cast<double>(tensor.bytes()));
  return item;
}

val ResultsToJs(const Graph& graph, const std::vector<Tensor>& results) {
  val out = val::array();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].empty()) continue;
    out.call<void>("push", TensorToJs(graph.outputs()[i]->name, results[i]));
  }
  return out;
}

val OperatorFunctions(const Graph& graph) {
  val functions = val::array();
  const auto add = [&functions](const void* entry) {
    functions.call<void>("push", Address(entry));
  };
  for (const OpDef* op : OperatorsOf(graph)) {
    add(reinterpret_cast<const void*>(op->infer));
    add(reinterpret_cast<const void*>(op->evaluate));
  }
  if (HasVolumes(graph)) add(kLowerVolume.entry());
  if (HasWideCodes(graph)) {
    add(reinterpret_cast<const void*>(FindOp("Requantize16", kRequantDomain)->evaluate));
  }
  if (NeedsRaising(graph)) add(kRaiseOpset.entry());
  if (HasType(graph, IsFloat8)) add(kFloat8ToFloat.entry());
  if (HasType(graph, IsText)) add(kTextOf.entry());
  for (const Pass& pass : PassTable()) {
    if (pass.may_apply && pass.may_apply(graph)) add(reinterpret_cast<const void*>(pass.run));
  }
  return functions;
}

}  // namespace bindings

namespace {

using emscripten::val;
using namespace bindings;

val Allocate(double bytes) {
  return Guard([bytes] {
    if (!(bytes >= 0) || bytes > 4294967295.0) {
      Fail(ErrorCode::kOutOfMemory, "more bytes than wasm memory can hold");
    }
    // Never zero. With what malloc keeps beside it (at most 8 bytes) a block has a multiple of 64
    // bytes, so that blocks made one after another have no gaps between them. Gaps would be given
    // to small objects, and weights that are freed later would not join to room for packed ones.
    const auto size = static_cast<uint64_t>(bytes) / 64 * 64 + 64 + 56;
    void* pointer = nullptr;
    if (size > SIZE_MAX || posix_memalign(&pointer, 64, static_cast<size_t>(size)) != 0) {
      throw std::bad_alloc();
    }
    return val(Address(pointer));
  });
}

void Free(double pointer) { std::free(Pointer(pointer)); }

SharedBytes TakeOver(double pointer, double size) {
  uint8_t* data = Pointer(pointer);
  std::shared_ptr<const void> owner(data, [](const void* p) { std::free(const_cast<void*>(p)); });
  return {std::move(owner), {data, static_cast<size_t>(size)}};
}

val ReadModel(double pointer, double size, const val& names, const val& pieces, bool float_layers) {
  return Guard([&] {
    const SharedBytes file = TakeOver(pointer, size);
    ReadOptions options;
    const auto count = names["length"].as<unsigned>();
    for (unsigned i = 0; i < count; ++i) {
      const auto number = [&](unsigned part) { return pieces[3 * i + part].as<double>(); };
      options.external.push_back({names[i].as<std::string>(), static_cast<uint64_t>(number(0)),
                                  TakeOver(number(1), number(2))});
    }
    return WrapModel(IsTflite(file.bytes) ? kReadTflite(file, float_layers)
                                          : ReadOnnx(file, options));
  });
}

val FileNeedsOf(double pointer, double size) {
  return Guard([&] {
    const std::span<const uint8_t> file(Pointer(pointer), static_cast<size_t>(size));
    const FileNeeds needs = IsTflite(file) ? FileNeeds{{}, kReadTflite.entry()} : NeedsOf(file);
    val names = val::array();
    val ranges = val::array();
    for (const ExternalNeed& need : needs.external) {
      names.call<void>("push", need.file);
      ranges.call<void>("push", static_cast<double>(need.offset));
      ranges.call<void>("push", static_cast<double>(need.size));
    }
    val functions = val::array();
    if (needs.function) functions.call<void>("push", Address(needs.function));
    val out = val::object();
    out.set("names", names);
    out.set("ranges", ranges);
    out.set("functions", functions);
    return out;
  });
}

val CreateSession(ModelHandle& model, const val& options) {
  return Guard([&] {
    const bindings::SessionRequest request = bindings::ReadSessionOptions(options);
    Graph graph = request.consume ? model.Take() : model.graph()->Clone();
    if (!request.dimensions.empty()) {
      FixDimensions(graph, request.dimensions);
      InferTypes(graph);
    }
    WidenToFloats(graph);
    PreparedModel prepared =
        request.optimize ? PrepareForRun(std::move(graph)) : PreparedModel::AsIs(std::move(graph));
    if (!request.taps.empty()) prepared = WithTaps(prepared, request.taps);
    auto session = std::make_unique<Session>(std::move(prepared), request.options);
    session->Prepare();
    return val(std::make_shared<SessionHandle>(std::move(session)));
  });
}

val LoadSession(double pointer, double size, const val& options) {
  return Guard([&] {
    const SharedBytes file = TakeOver(pointer, size);
    return val(std::make_shared<SessionHandle>(
        std::make_unique<Session>(file, bindings::ReadSessionOptions(options).options)));
  });
}

double LiveBytes() {  // mallinfo counts in int, which overflows above 2 GiB
  return static_cast<double>(static_cast<uint32_t>(mallinfo().uordblks));
}

EMSCRIPTEN_BINDINGS(requant) {
  using emscripten::class_;
  using emscripten::function;
  class_<Blob>("Blob")
      .smart_ptr<std::shared_ptr<Blob>>("BlobPtr")
      .property("pointer", &Blob::pointer)
      .property("size", &Blob::size)
      .function("free", &Blob::Release);
  class_<ModelHandle>("Model")
      .smart_ptr<std::shared_ptr<ModelHandle>>("ModelPtr")
      .function("info", &ModelHandle::Info)
      .function("functions", &ModelHandle::Functions)
      .function("lowBits", &ModelHandle::LowBits)
      .function("text", &ModelHandle::Text)
      .function("dot", &ModelHandle::Dot)
      .function("onnx", &ModelHandle::Onnx)
      .function("copy", &ModelHandle::Clone)
      .function("optimize", &ModelHandle::Optimize);
  class_<SessionHandle>("Session")
      .smart_ptr<std::shared_ptr<SessionHandle>>("SessionPtr")
      .function("info", &SessionHandle::Info)
      .function("run", &SessionHandle::Run)
      .function("plan", &SessionHandle::PlanInfo)
      .function("profile", &SessionHandle::Profile)
      .function("functions", &SessionHandle::Functions)
      .function("lowBits", &SessionHandle::LowBits)
      .function("prepareFor", &SessionHandle::PrepareFor)
      .function("save", &SessionHandle::Save)
      .function("bind", &SessionHandle::Bind)
      .function("runBound", &SessionHandle::RunBound)
      .function("unbind", &SessionHandle::Unbind);
  function("allocate", &Allocate);
  function("free", &Free);
  function("readOnnx", &ReadModel);
  function("fileNeeds", &FileNeedsOf);
  function("createSession", &CreateSession);
  function("loadPlan", &LoadSession);
  function("operators", &OperatorsJson);
  function("passes", &PassesJson);
  function("kernels", &KernelsJson);
  function("liveBytes", &LiveBytes);
  function("useThreads", &bindings::UseThreads);
  function("threadKernels", &bindings::ThreadKernels);
}

}  // namespace
}  // namespace requant

/// A plain export, since calls through Embind make garbage. Returns 0, or 1 when the run failed.
extern "C" EMSCRIPTEN_KEEPALIVE int run_bound(requant::bindings::Bound* bound) {
  try {
    requant::bindings::BeginRun();
    bound->session->Run(bound->run);
    return 0;
  } catch (...) {
    return 1;
  }
}

/// The loader calls this once it has loaded the extended operators.
extern "C" EMSCRIPTEN_KEEPALIVE void operators_loaded() { requant::SetOperatorsLoaded(); }
