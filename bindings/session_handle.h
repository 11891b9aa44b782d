// The session that JavaScript holds.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "handles.h"

namespace requant::bindings {

/// A run that is repeated, which run_bound finds by its address.
struct Bound {
  Session* session;
  BoundRun run;
};

/// The plan of the last run, or the program, as JSON.
inline std::string PlanOf(const Session& session) {
  const bool program = session.plan() == nullptr && kProgramJson.loaded();
  return program ? kProgramJson(session) : PlanJson(session.plan());
}

/// Strings of the runs before this one are not needed any more.
inline void BeginRun() {
  if (kBeginTextRun.loaded()) kBeginTextRun();
}

class SessionHandle {
 public:
  explicit SessionHandle(std::unique_ptr<Session> session) : session_(std::move(session)) {}
  Session& session() { return *session_; }

  emscripten::val Info() const {
    return Guard([this] { return emscripten::val(ModelInfoJson(session_->graph())); });
  }
  emscripten::val Run(const emscripten::val& names, const emscripten::val& types,
                      const emscripten::val& dims, const emscripten::val& pointers) {
    return Guard([&] {
      BeginRun();
      results_.clear();
      results_ = session_->Run(ReadFeeds(names, types, dims, pointers));
      return ResultsToJs(session_->graph(), results_);
    });
  }
  /// Returns { id, inputs, results }: where every run of this id reads its feeds and leaves its
  /// outputs.
  emscripten::val Bind(const emscripten::val& names, const emscripten::val& types,
                       const emscripten::val& dims) {
    return Guard([&] {
      const TensorMap feeds = ReadFeeds(names, types, dims, emscripten::val::undefined());
      emscripten::val inputs = emscripten::val::array();
      const auto count = names["length"].as<unsigned>();
      for (unsigned i = 0; i < count; ++i) {
        inputs.call<void>("push", Address(feeds.at(names[i].as<std::string>()).raw()));
      }
      bound_.push_back(std::make_unique<Bound>(Bound{session_.get(), session_->Bind(feeds)}));
      emscripten::val out = emscripten::val::object();
      out.set("id", Address(bound_.back().get()));
      out.set("inputs", inputs);
      out.set("results", ResultsToJs(session_->graph(), bound_.back()->run.outputs));
      return out;
    });
  }
  /// Does what run_bound does, and reports errors.
  emscripten::val RunBound(double id) {
    return Guard([&] {
      BeginRun();
      session_->Run(reinterpret_cast<Bound*>(Pointer(id))->run);
      return emscripten::val::undefined();
    });
  }
  void Unbind(double id) {
    std::erase_if(bound_, [id](const auto& bound) { return Address(bound.get()) == id; });
  }
  emscripten::val PlanInfo() const {
    return Guard([this] { return emscripten::val(PlanOf(*session_)); });
  }
  emscripten::val Profile() const {
    return Guard([this] { return emscripten::val(ProfileJson(session_->Profile())); });
  }
  /// The functions of the operators that the plan runs by their references, and of one scalar
  /// kernel if the session may use these.
  emscripten::val Functions() const {
    return Guard([this] {
      // A session of several plans has loaded the extended operators (src/plan/saved/file.h).
      if (session_->plan() == nullptr) return emscripten::val::array();
      const Plan& plan = *session_->plan();
      emscripten::val functions = OperatorFunctions(*plan.graph);
      const bool scalar = std::any_of(plan.steps.begin(), plan.steps.end(), [](const auto& step) {
        return step->kernel.ends_with("_scalar");
      });
      if (scalar) {
        functions.call<void>("push", Address(reinterpret_cast<const void*>(AnyScalarKernel())));
      }
      return functions;
    });
  }
  emscripten::val LowBits() const {
    return Guard([this] { return emscripten::val(session_->LacksLowBits()); });
  }
  /// Plans for feeds of these shapes.
  emscripten::val PrepareFor(const emscripten::val& names, const emscripten::val& types,
                             const emscripten::val& dims) {
    return Guard([&] {
      session_->PrepareFor(ReadFeeds(names, types, dims, emscripten::val::undefined()));
      return emscripten::val::undefined();
    });
  }
  emscripten::val Save() const {
    return Guard([this] { return emscripten::val(std::make_shared<Blob>(session_->Save())); });
  }

 private:
  std::unique_ptr<Session> session_;
  std::vector<Tensor> results_;
  std::vector<std::unique_ptr<Bound>> bound_;
};

}  // namespace requant::bindings
