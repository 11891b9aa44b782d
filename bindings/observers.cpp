// Binds observers and grids as objects. A part of the tools, which tools.cpp binds.
#include <memory>
#include <string>

#include "quantized_handle.h"
#include "read_option.h"

namespace requant::bindings {
namespace {

using emscripten::val;

/// A tensor over memory that JavaScript has filled.
Tensor ReadTensor(const std::string& type, const val& dims, double pointer) {
  Shape shape;
  for (const double dim : emscripten::vecFromJSArray<double>(dims)) {
    shape.push_back(static_cast<int64_t>(dim));
  }
  return Tensor::Unowned(DTypeFromName(type), std::move(shape), Pointer(pointer));
}

template <typename List>
val ToArray(const List& list) {
  val out = val::array();
  for (const auto one : list) out.call<void>("push", static_cast<double>(one));
  return out;
}

val GridToJs(const TensorQuantizationConfig& grid) {
  val out = val::object();
  out.set("scale", ToArray(grid.scale));
  out.set("zeroPoint",
          grid.bipolar() ? ToArray(std::vector<int32_t>{grid.threshold}) : ToArray(grid.offset));
  out.set("quantMin", static_cast<double>(grid.quant_min));
  out.set("quantMax", static_cast<double>(grid.quant_max));
  return out;
}

/// The bytes of a tensor of float32, for JavaScript to copy.
val ToBlob(const Tensor& tensor) {
  const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
  return val(std::make_shared<Blob>(std::vector<uint8_t>(bytes, bytes + tensor.bytes())));
}

class ObserverHandle {
 public:
  explicit ObserverHandle(TensorObserver observer) : observer_(std::move(observer)) {}

  int Passes() const { return observer_.passes(); }
  val Observe(int pass, const std::string& type, const val& dims, double pointer) {
    return Guard([&] {
      observer_.Observe(pass, ReadTensor(type, dims, pointer));
      return val::undefined();
    });
  }
  val Merge(const ObserverHandle& later) {
    return Guard([&] {
      observer_.Merge(later.observer_);
      return val::undefined();
    });
  }
  val Clone() const {
    return Guard([this] { return val(std::make_shared<ObserverHandle>(observer_.Clone())); });
  }
  val Reset() {
    return Guard([this] {
      observer_.Reset();
      return val::undefined();
    });
  }
  val Ranges() const {
    return Guard([this] {
      val out = val::array();
      for (const Range& range : observer_.Ranges()) {
        out.call<void>("push", ToArray(std::vector<double>{range.min, range.max}));
      }
      return out;
    });
  }
  val Grid() const {
    return Guard([this] { return GridToJs(observer_.Grid()); });
  }

 private:
  TensorObserver observer_;
};

class FakeQuantizerHandle {
 public:
  FakeQuantizerHandle(const TensorSettings& settings, const FixedScale& given)
      : quantizer_(settings, given) {}

  val Forward(const std::string& type, const val& dims, double pointer) {
    return Guard([&] { return ToBlob(quantizer_.Forward(ReadTensor(type, dims, pointer))); });
  }
  val Backward(const std::string& type, const val& dims, double pointer) const {
    return Guard([&] {
      const FakeQuantizer::Gradients made = quantizer_.Backward(ReadTensor(type, dims, pointer));
      val out = val::object();
      out.set("input", ToBlob(made.input));
      out.set("scale", ToArray(made.scale));
      return out;
    });
  }
  val Freeze() {
    return Guard([this] {
      quantizer_.Freeze();
      return val::undefined();
    });
  }
  val Grid() const {
    return Guard([this] { return GridToJs(quantizer_.grid()); });
  }

 private:
  FakeQuantizer quantizer_;
};

val CreateObserver(const val& options) {
  return Guard([&] {
    return val(std::make_shared<ObserverHandle>(TensorObserver(ReadTensorSettings(options))));
  });
}

val CreateFakeQuantizer(const val& options) {
  return Guard([&] {
    const FixedScale given =
        Has(options, "scale") ? ReadScale(options["scale"], options["zeroPoint"]) : FixedScale();
    return val(std::make_shared<FakeQuantizerHandle>(ReadTensorSettings(options), given));
  });
}

}  // namespace

void BindObservers() {
  emscripten::class_<ObserverHandle>("Observer")
      .smart_ptr<std::shared_ptr<ObserverHandle>>("ObserverPtr")
      .function("passes", &ObserverHandle::Passes)
      .function("observe", &ObserverHandle::Observe)
      .function("merge", &ObserverHandle::Merge)
      .function("copy", &ObserverHandle::Clone)
      .function("reset", &ObserverHandle::Reset)
      .function("ranges", &ObserverHandle::Ranges)
      .function("grid", &ObserverHandle::Grid);
  emscripten::class_<FakeQuantizerHandle>("FakeQuantizer")
      .smart_ptr<std::shared_ptr<FakeQuantizerHandle>>("FakeQuantizerPtr")
      .function("forward", &FakeQuantizerHandle::Forward)
      .function("backward", &FakeQuantizerHandle::Backward)
      .function("freeze", &FakeQuantizerHandle::Freeze)
      .function("grid", &FakeQuantizerHandle::Grid);
  emscripten::function("createObserver", &CreateObserver);
  emscripten::function("createFakeQuantizer", &CreateFakeQuantizer);
}

}  // namespace requant::bindings
