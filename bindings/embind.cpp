// Translation between JavaScript and the core, nothing more. The contract is bindings/README.md.
#include <emscripten/bind.h>
#include <emscripten/emscripten.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "api/requant.h"
#include "options.h"
#include "threads.h"

namespace requant {
namespace {

using emscripten::val;

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

/// Runs `body(self)` and turns whatever it throws into the error object.
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

template <typename Body>
val Guard(const Body& body) {
  return GuardCall([](const void* self) { return (*static_cast<const Body*>(self))(); }, &body);
}

uint8_t* Pointer(double address) {
  return reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(address));
}

double Address(const void* pointer) {
  return static_cast<double>(reinterpret_cast<uintptr_t>(pointer));
}

val Allocate(double bytes) {
  return Guard([bytes] {
    if (!(bytes >= 0) || bytes > 4294967295.0) {
      Fail(ErrorCode::kOutOfMemory, "more bytes than wasm memory can hold");
    }
    const auto size = static_cast<uint64_t>(bytes) / 64 * 64 + 64;  // never zero, a whole multiple
    void* pointer = size > SIZE_MAX ? nullptr : std::aligned_alloc(64, static_cast<size_t>(size));
    if (pointer == nullptr) throw std::bad_alloc();
    return val(Address(pointer));
  });
}

void Free(double pointer) { std::free(Pointer(pointer)); }

SharedBytes TakeOver(double pointer, double size) {
  uint8_t* data = Pointer(pointer);
  std::shared_ptr<const void> owner(data, [](const void* p) { std::free(const_cast<void*>(p)); });
  return {std::move(owner), {data, static_cast<size_t>(size)}};
}

TensorMap ReadFeeds(const val& names, const val& types, const val& dims, const val& pointers) {
  TensorMap feeds;
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
    feeds[name] = Tensor::Unowned(dtype, std::move(shape), Pointer(pointers[i].as<double>()));
  }
  return feeds;
}

val ResultsToJs(const Graph& graph, const std::vector<Tensor>& results) {
  val out = val::array();
  for (size_t i = 0; i < results.size(); ++i) {
    val item = val::object();
    item.set("name", graph.outputs()[i]->name);
    item.set("type", std::string(DTypeName(results[i].dtype())));
    val dims = val::array();
    for (const int64_t dim : results[i].shape()) dims.call<void>("push", static_cast<double>(dim));
    item.set("dims", dims);
    item.set("pointer", Address(results[i].raw()));
    item.set("size", static_cast<double>(results[i].bytes()));
    out.call<void>("push", item);
  }
  return out;
}

/// Bytes for JavaScript to copy out.
class Blob {
 public:
  explicit Blob(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  double pointer() const { return Address(bytes_.data()); }
  double size() const { return static_cast<double>(bytes_.size()); }
  void Release() { std::vector<uint8_t>().swap(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

class ModelHandle {
 public:
  explicit ModelHandle(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}

  std::shared_ptr<const Graph> graph() const { return graph_; }
  /// The graph of a model that nobody uses any more.
  std::shared_ptr<const Graph> Take() { return std::move(graph_); }
  val Info() const {
    return Guard([this] { return val(ModelInfoJson(*graph_)); });
  }
  val Text(double max_constant_elements) const {
    return Guard(
        [&] { return val(PrintGraph(*graph_, {static_cast<size_t>(max_constant_elements)})); });
  }
  val Dot() const {
    return Guard([this] { return val(GraphToDot(*graph_)); });
  }
  val Onnx() const {
    return Guard([this] { return val(std::make_shared<Blob>(WriteOnnx(*graph_))); });
  }
  val Clone() const {
    return Guard([this] { return val(std::make_shared<ModelHandle>(graph_)); });
  }
  val Optimize(const val& options) {
    return Guard([&] {
      auto copy = std::make_shared<Graph>(graph_->Clone());
      const std::string report = bindings::RunPassesFromJs(*copy, options);
      graph_ = std::move(copy);
      return val(report);
    });
  }

 private:
  std::shared_ptr<const Graph> graph_;
};

val WrapModel(Graph graph) {
  return val(std::make_shared<ModelHandle>(std::make_shared<Graph>(std::move(graph))));
}

/// A run that is repeated: what run_bound knows by its address.
struct Bound {
  Session* session;
  BoundRun run;
};

class SessionHandle {
 public:
  explicit SessionHandle(std::unique_ptr<Session> session) : session_(std::move(session)) {}

  val Info() const {
    return Guard([this] { return val(ModelInfoJson(session_->graph())); });
  }
  val Run(const val& names, const val& types, const val& dims, const val& pointers) {
    return Guard([&] {
      results_.clear();
      results_ = session_->Run(ReadFeeds(names, types, dims, pointers));
      return ResultsToJs(session_->graph(), results_);
    });
  }
  /// { id, results }: where the outputs of every run of this id will be.
  val Bind(const val& names, const val& types, const val& dims, const val& pointers) {
    return Guard([&] {
      BoundRun run = session_->Bind(ReadFeeds(names, types, dims, pointers));
      bound_.push_back(std::make_unique<Bound>(Bound{session_.get(), std::move(run)}));
      val out = val::object();
      out.set("id", Address(bound_.back().get()));
      out.set("results", ResultsToJs(session_->graph(), bound_.back()->run.outputs));
      return out;
    });
  }
  /// The same as run_bound, but tells what is wrong.
  val RunBound(double id) {
    return Guard([&] {
      session_->Run(reinterpret_cast<Bound*>(Pointer(id))->run);
      return val::undefined();
    });
  }
  void Unbind(double id) {
    std::erase_if(bound_, [id](const auto& bound) { return Address(bound.get()) == id; });
  }
  val PlanInfo() const {
    return Guard([this] { return val(PlanJson(session_->plan())); });
  }
  val Profile() const {
    return Guard([this] { return val(ProfileJson(session_->Profile())); });
  }
  val Save() const {
    return Guard([this] { return val(std::make_shared<Blob>(session_->Save())); });
  }

 private:
  std::unique_ptr<Session> session_;
  std::vector<Tensor> results_;
  std::vector<std::unique_ptr<Bound>> bound_;
};

class QuantizedHandle {
 public:
  explicit QuantizedHandle(QuantizedModel model) : model_(std::move(model)) {}

  val Record() const {
    return Guard([this] { return val(RecordToJson(model_.record)); });
  }
  val Integer() const {
    return Guard([this] { return WrapModel(LowerToInteger(model_)); });
  }
  val Qdq() const {
    return Guard([this] { return WrapModel(ToQdq(model_)); });
  }
  val QOperator() const {
    return Guard([this] { return WrapModel(ToQOperator(model_)); });
  }
  val FloatModel() const {
    return Guard([this] { return WrapModel(model_.float_graph.Clone()); });
  }

 private:
  QuantizedModel model_;
};

class CalibratorHandle {
 public:
  CalibratorHandle(const Graph& graph, const QuantizeOptions& options)
      : calibrator_(graph, options, bindings::Threads()) {}

  val Nodes() const {
    val names = val::array();
    for (const auto& node : calibrator_.graph().nodes()) names.call<void>("push", node->name);
    return names;
  }
  int Passes() const { return calibrator_.passes(); }
  val Add(int pass, const val& names, const val& types, const val& dims, const val& pointers) {
    return Guard([&] {
      calibrator_.Add(pass, ReadFeeds(names, types, dims, pointers));
      return val::undefined();
    });
  }
  val Finish() {
    return Guard([this] { return val(std::make_shared<QuantizedHandle>(calibrator_.Finish())); });
  }

 private:
  Calibrator calibrator_;
};

class ComparerHandle {
 public:
  ComparerHandle(std::shared_ptr<const Graph> reference, std::shared_ptr<const Graph> candidate,
                 const CompareOptions& options)
      : comparer_(PrepareForRun(std::move(reference)), PrepareForRun(std::move(candidate)),
                  options) {}

  val Add(const val& names, const val& types, const val& dims, const val& pointers, double label) {
    return Guard([&] {
      const SampleResult result =
          comparer_.Add(ReadFeeds(names, types, dims, pointers), static_cast<int64_t>(label));
      val out = val::object();
      out.set("floatTop1", static_cast<double>(result.float_top1));
      out.set("candidateTop1", static_cast<double>(result.candidate_top1));
      out.set("floatMs", result.float_ms);
      out.set("candidateMs", result.candidate_ms);
      return out;
    });
  }
  val Report() const {
    return Guard([this] { return val(comparer_.Report()); });
  }

 private:
  Comparer comparer_;
};

val ReadModel(double pointer, double size, const val& names, const val& pointers,
              const val& sizes) {
  return Guard([&] {
    const SharedBytes file = TakeOver(pointer, size);
    ReadOptions options;
    const auto count = names["length"].as<unsigned>();
    for (unsigned i = 0; i < count; ++i) {
      options.external[names[i].as<std::string>()] =
          TakeOver(pointers[i].as<double>(), sizes[i].as<double>());
    }
    return WrapModel(ReadOnnx(file, options));
  });
}

val ExternalFilesOf(double pointer, double size) {
  return Guard([&] {
    val names = val::array();
    for (const std::string& name :
         ExternalDataLocations({Pointer(pointer), static_cast<size_t>(size)})) {
      names.call<void>("push", name);
    }
    return names;
  });
}

val ParseText(const std::string& text) {
  return Guard([&] { return WrapModel(ParseGraph(text)); });
}

val CreateSession(ModelHandle& model, const val& options) {
  return Guard([&] {
    const bindings::SessionRequest request = bindings::ReadSessionOptions(options);
    std::shared_ptr<const Graph> graph = request.consume ? model.Take() : model.graph();
    if (request.optimize) graph = PrepareForRun(std::move(graph));
    if (!request.taps.empty()) graph = WithTaps(*graph, request.taps);
    auto session = std::make_unique<Session>(std::move(graph), request.options);
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

val CreateCalibrator(const ModelHandle& model, const val& options) {
  return Guard([&] {
    return val(
        std::make_shared<CalibratorHandle>(*model.graph(), bindings::ReadQuantizeOptions(options)));
  });
}

val CreateComparer(const ModelHandle& reference, const ModelHandle& candidate, const val& options) {
  return Guard([&] {
    return val(std::make_shared<ComparerHandle>(reference.graph(), candidate.graph(),
                                                bindings::ReadCompareOptions(options)));
  });
}

double LiveBytes() { return static_cast<double>(mallinfo().uordblks); }

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
      .function("save", &SessionHandle::Save)
      .function("bind", &SessionHandle::Bind)
      .function("runBound", &SessionHandle::RunBound)
      .function("unbind", &SessionHandle::Unbind);
  class_<QuantizedHandle>("Quantized")
      .smart_ptr<std::shared_ptr<QuantizedHandle>>("QuantizedPtr")
      .function("record", &QuantizedHandle::Record)
      .function("integer", &QuantizedHandle::Integer)
      .function("qdq", &QuantizedHandle::Qdq)
      .function("qoperator", &QuantizedHandle::QOperator)
      .function("floatModel", &QuantizedHandle::FloatModel);
  class_<CalibratorHandle>("Calibrator")
      .smart_ptr<std::shared_ptr<CalibratorHandle>>("CalibratorPtr")
      .function("nodes", &CalibratorHandle::Nodes)
      .function("passes", &CalibratorHandle::Passes)
      .function("add", &CalibratorHandle::Add)
      .function("finish", &CalibratorHandle::Finish);
  class_<ComparerHandle>("Comparer")
      .smart_ptr<std::shared_ptr<ComparerHandle>>("ComparerPtr")
      .function("add", &ComparerHandle::Add)
      .function("report", &ComparerHandle::Report);
  function("allocate", &Allocate);
  function("free", &Free);
  function("readOnnx", &ReadModel);
  function("externalFiles", &ExternalFilesOf);
  function("parseText", &ParseText);
  function("createSession", &CreateSession);
  function("loadPlan", &LoadSession);
  function("createCalibrator", &CreateCalibrator);
  function("createComparer", &CreateComparer);
  function("operators", &OperatorsJson);
  function("passes", &PassesJson);
  function("kernels", &KernelsJson);
  function("liveBytes", &LiveBytes);
  function("useThreads", &bindings::UseThreads);
  function("threadKernels", &bindings::ThreadKernels);
}

}  // namespace
}  // namespace requant

/// A plain export: calls through Embind make garbage. 0, or 1 when the run failed.
extern "C" EMSCRIPTEN_KEEPALIVE int run_bound(requant::Bound* bound) {
  try {
    bound->session->Run(bound->run);
    return 0;
  } catch (...) {
    return 1;
  }
}
