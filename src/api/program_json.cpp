// A Program as JSON (bindings/README.md). The code is among the extended operators, which every
// model with a Program has loaded.
#include "api/json.h"
#include "base/json.h"
#include "base/late_text.h"
#include "session/session.h"

namespace requant {
namespace {

void WriteNumbers(JsonWriter& json, const char* key, const std::vector<int>& numbers) {
  json.Key(key).BeginArray();
  for (const int number : numbers) json.Int(number);
  json.EndArray();
}

}  // namespace

std::string ProgramJson(const Session& session) {
  JsonWriter json;
  json.BeginObject();
  if (session.execution() != nullptr) {
    Listing listing;
    ValueRegisters values;
    session.execution()->List("", listing, values);
    json.Key("steps").BeginArray().EndArray();
    json.Key(RQ_LATE_TEXT("instructions")).BeginArray();
    for (const Instruction& line : listing.instructions) {
      json.BeginObject();
      json.Key(RQ_LATE_TEXT("part")).String(line.part);
      json.Key("op").String(line.op);
      json.Key("name").String(line.name);
      json.Key("kernel").String(line.kernel);
      WriteNumbers(json, RQ_LATE_TEXT("reads"), line.reads);
      WriteNumbers(json, RQ_LATE_TEXT("writes"), line.writes);
      if (line.plan != nullptr) {
        json.Key("macs").Int(line.plan->steps[line.step]->macs);
      }
      json.EndObject();
    }
    json.EndArray();
    json.Key(RQ_LATE_TEXT("registers")).BeginArray();
    for (const Register& one : listing.registers) {
      json.BeginObject();
      json.Key(RQ_LATE_TEXT("part")).String(one.part);
      json.Key("name").String(one.name);
      if (one.dtype != DType::kUndefined) json.Key("type").String(DTypeName(one.dtype));
      if (one.shape) {
        json.Key("dims").BeginArray();
        for (const int64_t dim : *one.shape) json.Int(dim);
        json.EndArray();
      }
      json.EndObject();
    }
    json.EndArray();
    const SessionMemory memory = session.memory();
    json.Key("memory").BeginObject();
    json.Key("arena").Int(static_cast<int64_t>(memory.arena));
    json.Key("lowerBound").Int(static_cast<int64_t>(memory.arena_lower_bound));
    json.Key("packedWeights").Int(static_cast<int64_t>(memory.packed_weights));
    json.EndObject();
    json.Key("warnings").BeginArray().EndArray();
  }
  json.EndObject();
  return json.text();
}

}  // namespace requant
