// Binds what sessions remember (src/session/state.h), in the module of the extended operators.
#include <emscripten/bind.h>
#include <emscripten/emscripten.h>

#include <memory>
#include <string>
#include <vector>

#include "session_handle.h"
#include "texts.h"

namespace requant {
namespace {

using emscripten::val;
using namespace bindings;

/// Holds the state of one sequence of runs.
class StateHandle {
 public:
  explicit StateHandle(SessionState state) : state_(std::move(state)) {}

  val Run(const val& names, const val& types, const val& dims, const val& pointers) {
    return Guard([&] {
      BeginRun();
      results_.clear();
      results_ = state_.Run(ReadFeeds(names, types, dims, pointers));
      return ResultsToJs(state_.session().graph(), results_);
    });
  }
  /// The pairs: { past, present, axis, once, tokens, inPlace, codes }.
  val Pairs() const {
    return Guard([this] {
      val out = val::array();
      for (size_t i = 0; i < state_.pairs().size(); ++i) {
        const RememberedPair& pair = state_.pairs()[i];
        val item = val::object();
        item.set("past", pair.past);
        item.set("present", pair.present);
        item.set("axis", pair.axis);
        item.set("once", pair.once);
        item.set("tokens", static_cast<double>(state_.tokens(i)));
        item.set("inPlace", state_.in_place(i));
        item.set("codes", state_.coded(i));
        out.call<void>("push", item);
      }
      return out;
    });
  }
  double Bytes() const { return static_cast<double>(state_.bytes()); }
  val PlanInfo() const {
    return Guard([this] { return val(PlanOf(state_.session())); });
  }
  val Truncate(unsigned pair, double tokens) {
    return Guard([&] {
      state_.Truncate(pair, static_cast<int64_t>(tokens));
      return val::undefined();
    });
  }
  val Select(const val& images) {
    return Guard([&] {
      std::vector<int64_t> wanted;
      for (const double image : emscripten::vecFromJSArray<double>(images)) {
        wanted.push_back(static_cast<int64_t>(image));
      }
      state_.Select(wanted);
      return val::undefined();
    });
  }
  val Clone() const {
    return Guard([this] { return val(std::make_shared<StateHandle>(state_.Clone())); });
  }
  /// TensorToJs of a copy, which lives until the next call; undefined before the first run.
  val Get(unsigned pair) {
    return Guard([&] {
      copy_ = state_.Get(pair);
      if (copy_.empty()) return val::undefined();
      return TensorToJs(state_.pairs()[pair].past, copy_);
    });
  }
  /// Takes tensors by the names of inputs.
  val Load(const val& names, const val& types, const val& dims, const val& pointers) {
    return Guard([&] {
      const TensorMap given = ReadFeeds(names, types, dims, pointers);
      SessionState loaded = state_.Clone();
      for (size_t i = 0; i < state_.pairs().size(); ++i) {
        const auto found = given.find(state_.pairs()[i].past);
        if (found == given.end()) {
          Fail(ErrorCode::kInvalidArgument,
               StrCat("the tensor of '", state_.pairs()[i].past, "' is missing"),
               {.value = state_.pairs()[i].past, .hint = "load what toTensors() gave"});
        }
        loaded.Set(i, found->second);
      }
      state_ = std::move(loaded);
      return val::undefined();
    });
  }

 private:
  SessionState state_;
  std::vector<Tensor> results_;
  Tensor copy_;
};

val CreateState(SessionHandle& session, const val& pairs, double room) {
  return Guard([&] {
    std::vector<RememberedPair> read;
    const auto count = pairs["length"].as<unsigned>();
    for (unsigned i = 0; i < count; ++i) {
      const val pair = pairs[i];
      read.push_back({pair["past"].as<std::string>(), pair["present"].as<std::string>(),
                      pair["axis"].as<int>(), pair["once"].as<bool>(), pair["coded"].as<bool>()});
    }
    return val(std::make_shared<StateHandle>(
        SessionState(session.session(), std::move(read), static_cast<int64_t>(room))));
  });
}

}  // namespace
}  // namespace requant

/// The loader calls this once the extended operators are loaded.
extern "C" EMSCRIPTEN_KEEPALIVE void bind_state() {
  using namespace requant;
  emscripten::class_<StateHandle>("State")
      .smart_ptr<std::shared_ptr<StateHandle>>("StatePtr")
      .function("run", &StateHandle::Run)
      .function("pairs", &StateHandle::Pairs)
      .function("bytes", &StateHandle::Bytes)
      .function("plan", &StateHandle::PlanInfo)
      .function("truncate", &StateHandle::Truncate)
      .function("select", &StateHandle::Select)
      .function("copy", &StateHandle::Clone)
      .function("get", &StateHandle::Get)
      .function("load", &StateHandle::Load);
  emscripten::function("createState", &CreateState);
  bindings::BindTexts();
}
