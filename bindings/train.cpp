// Binds quantization-aware training. A part of the tools, which tools.cpp binds.
#include <memory>
#include <string>

#include "quantized_handle.h"
#include "read_option.h"
#include "threads.h"

namespace requant::bindings {
namespace {

using emscripten::val;

TrainOptions ReadTrainOptions(const val& options) {
  TrainOptions out;
#define REQUANT_TRAIN_OPTION(type, field, name, standard) ReadRow(options, name, out.field);
#include "api/train_options.inc"
  out.runner = Threads();
  return out;
}

class TrainerHandle {
 public:
  TrainerHandle(const QuantizedModel& model, const TrainOptions& options)
      : trainer_(model, options) {}

  val Add(const val& names, const val& types, const val& dims, const val& pointers, double label) {
    return Guard([&] {
      const TensorMap feeds = ReadFeeds(names, types, dims, pointers);
      trainer_.Add(feeds, static_cast<int64_t>(label));
      feeds_ = TypesOf(feeds);
      return val::undefined();
    });
  }
  val Advance(double rate) {
    return Guard([&] {
      const TrainProgress progress = trainer_.Advance(rate);
      val out = val::object();
      out.set("finished", progress.finished);
      out.set("loss", progress.loss);
      out.set("correct", static_cast<double>(progress.correct));
      out.set("labelled", static_cast<double>(progress.labelled));
      return out;
    });
  }
  val Clear() {
    return Guard([this] {
      trainer_.Clear();
      return val::undefined();
    });
  }
  val Freeze() {
    return Guard([this] {
      trainer_.Freeze();
      return val::undefined();
    });
  }
  val State() {
    return Guard([this] { return val(std::make_shared<Blob>(trainer_.State())); });
  }
  val Restore(double pointer, double size) {
    return Guard([&] {
      trainer_.Restore({Pointer(pointer), static_cast<size_t>(size)});
      return val::undefined();
    });
  }
  val Snapshot() {
    return Guard([this] {
      QuantizedModel model = trainer_.Snapshot();
      KeepRunnable(model, feeds_);
      return val(std::make_shared<QuantizedHandle>(std::move(model)));
    });
  }
  val Finish(const std::string& note) {
    return Guard([&] {
      QuantizedModel model = trainer_.Finish(note);
      KeepRunnable(model, feeds_);
      return val(std::make_shared<QuantizedHandle>(std::move(model)));
    });
  }

 private:
  Trainer trainer_;
  std::vector<FeedType> feeds_;  // types of the latest sample
};

val CreateTrainer(const QuantizedHandle& model, const val& options) {
  return Guard([&] {
    return val(std::make_shared<TrainerHandle>(model.model(), ReadTrainOptions(options)));
  });
}

}  // namespace

void BindTraining() {
  emscripten::class_<TrainerHandle>("Trainer")
      .smart_ptr<std::shared_ptr<TrainerHandle>>("TrainerPtr")
      .function("add", &TrainerHandle::Add)
      .function("advance", &TrainerHandle::Advance)
      .function("clear", &TrainerHandle::Clear)
      .function("freeze", &TrainerHandle::Freeze)
      .function("state", &TrainerHandle::State)
      .function("restore", &TrainerHandle::Restore)
      .function("snapshot", &TrainerHandle::Snapshot)
      .function("finish", &TrainerHandle::Finish);
  emscripten::function("createTrainer", &CreateTrainer);
}

}  // namespace requant::bindings
