// Binds what only quantizes and compares, in the module that is loaded on demand
// (bindings/cmake/tools_sources.txt).
#include <emscripten/bind.h>
#include <emscripten/emscripten.h>

#include <memory>
#include <string>

#include "handles.h"
#include "quantized_handle.h"
#include "threads.h"

namespace requant {
namespace {

using emscripten::val;
using namespace bindings;

class CalibratorHandle {
 public:
  explicit CalibratorHandle(const Graph& graph)
      : calibrator_(Calibrator::Unbegun(graph, bindings::Threads())) {}

  val Begin(const val& options) {
    return Guard([&] {
      calibrator_.Begin(bindings::ReadQuantizeOptions(options));
      return val::undefined();
    });
  }

  val Nodes() const {
    return Guard([this] {
      val names = val::array();
      const auto add = [&](const std::string& name, const Node& node) {
        val entry = val::object();
        entry.set("name", name);
        entry.set("type", node.op_type);
        names.call<void>("push", entry);
      };
      for (const auto& node : calibrator_.graph().nodes()) add(node->name, *node);
      VisitBodies(calibrator_.graph(),
                  [&](const std::string& path, const Node& node, const Node&) { add(path, node); });
      return names;
    });
  }
  int Passes() const { return calibrator_.passes(); }
  val Add(int pass, const val& names, const val& types, const val& dims, const val& pointers) {
    return Guard([&] {
      calibrator_.Add(pass, ReadFeeds(names, types, dims, pointers));
      return val::undefined();
    });
  }
  val Probe(double first_sample, const val& names, const val& types, const val& dims,
            const val& pointers) {
    return Guard([&] {
      calibrator_.Probe(ReadFeeds(names, types, dims, pointers),
                        static_cast<int64_t>(first_sample));
      return val::undefined();
    });
  }
  val SaveState(int pass) {
    return Guard([&] { return val(std::make_shared<Blob>(calibrator_.SaveState(pass))); });
  }
  val LoadState(int pass, double pointer, double size, bool merge) {
    return Guard([&] {
      const std::span<const uint8_t> bytes(Pointer(pointer), static_cast<size_t>(size));
      if (merge) {
        calibrator_.MergeState(pass, bytes);
      } else {
        calibrator_.LoadState(pass, bytes);
      }
      return val::undefined();
    });
  }
  val Step() {
    return Guard([this] {
      const FinishProgress progress = calibrator_.Step();
      val out = val::object();
      out.set("method", progress.method);
      out.set("done", static_cast<double>(progress.done));
      out.set("total", static_cast<double>(progress.total));
      out.set("finished", progress.finished);
      return out;
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
  ComparerHandle(Graph reference, Graph candidate, const CompareOptions& options)
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

val ParseText(const std::string& text) {
  return Guard([&] { return WrapModel(ParseGraph(text)); });
}

val ReadQuantizedFile(const ModelHandle& model) {
  return Guard(
      [&] { return val(std::make_shared<QuantizedHandle>(ReadQuantized(*model.graph()))); });
}

val FloatQuantized(const ModelHandle& model) {
  return Guard([&] { return val(std::make_shared<QuantizedHandle>(KeepFloat(*model.graph()))); });
}

val Packed(const ModelHandle& model) {
  return Guard([&] { return WrapModel(PackWeights(*model.graph())); });
}

val CreateCalibrator(const ModelHandle& model) {
  return Guard([&] { return val(std::make_shared<CalibratorHandle>(*model.graph())); });
}

val CreateComparer(const ModelHandle& reference, const ModelHandle& candidate, const val& options) {
  return Guard([&] {
    return val(std::make_shared<ComparerHandle>(reference.graph()->Clone(),
                                                candidate.graph()->Clone(),
                                                bindings::ReadCompareOptions(options)));
  });
}

}  // namespace
}  // namespace requant

/// The loader calls this; EMSCRIPTEN_BINDINGS would run before the tools are loaded.
extern "C" EMSCRIPTEN_KEEPALIVE void bind_tools() {
  using namespace requant;
  using emscripten::class_;
  using emscripten::function;
  class_<QuantizedHandle>("Quantized")
      .smart_ptr<std::shared_ptr<QuantizedHandle>>("QuantizedPtr")
      .function("record", &QuantizedHandle::Record)
      .function("integer", &QuantizedHandle::Integer)
      .function("qdq", &QuantizedHandle::Qdq)
      .function("qonnx", &QuantizedHandle::Qonnx)
      .function("qoperator", &QuantizedHandle::QOperator)
      .function("floatModel", &QuantizedHandle::FloatModel)
      .function("copy", &QuantizedHandle::Copy)
      .function("edited", &QuantizedHandle::Edited);
  class_<CalibratorHandle>("Calibrator")
      .smart_ptr<std::shared_ptr<CalibratorHandle>>("CalibratorPtr")
      .function("nodes", &CalibratorHandle::Nodes)
      .function("begin", &CalibratorHandle::Begin)
      .function("passes", &CalibratorHandle::Passes)
      .function("add", &CalibratorHandle::Add)
      .function("probe", &CalibratorHandle::Probe)
      .function("saveState", &CalibratorHandle::SaveState)
      .function("loadState", &CalibratorHandle::LoadState)
      .function("step", &CalibratorHandle::Step)
      .function("finish", &CalibratorHandle::Finish);
  class_<ComparerHandle>("Comparer")
      .smart_ptr<std::shared_ptr<ComparerHandle>>("ComparerPtr")
      .function("add", &ComparerHandle::Add)
      .function("report", &ComparerHandle::Report);
  function("parseText", &ParseText);
  function("readQuantized", &ReadQuantizedFile);
  function("floatQuantized", &FloatQuantized);
  function("packWeights", &Packed);
  function("createCalibrator", &CreateCalibrator);
  function("createComparer", &CreateComparer);
  BindGeneration();
  BindOwnOperators();
  BindOwnPasses();
  BindObservers();
  BindPartition();
  BindTraining();
  BindWeights();
}
