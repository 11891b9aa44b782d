#include "tensor/text.h"

#include <cstring>
#include <deque>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"

namespace requant {
namespace {

struct Entry {
  std::string text;
  uint32_t generation = 0;  // how many strings the place has had before
  uint32_t keepers = 0;     // tensors that keep it
  uint64_t asked = 0;       // the number of runs before it was last asked for
  bool used = false;
  bool loose = false;  // in Pool::loose
};

/// A handle has the place of an entry in the low half, and its generation in the high half.
struct Pool {
  std::deque<Entry> entries = {Entry{{}, 0, 1, 0, true, false}};
  std::unordered_map<std::string_view, uint32_t> places;  // views of the entries' texts
  std::vector<uint32_t> free;
  std::vector<uint32_t> loose;  // places of strings that no tensor may keep
  uint64_t runs = 0;
  int holds = 0;  // TextHolds that exist
};

Pool& ThePool() {
  // Never destroyed: a destructor at exit would be a call from the main module.
  static auto& pool = *new Pool;
  return pool;
}

Entry& EntryOf(uint64_t handle) {
  Pool& pool = ThePool();
  const auto place = static_cast<uint32_t>(handle);
  if (place < pool.entries.size()) {
    Entry& entry = pool.entries[place];
    if (entry.used && entry.generation == handle >> 32) return entry;
  }
  Fail(ErrorCode::kInternal, RQ_LATE_TEXT("a string was released while a tensor still had it"));
}

void Loosen(Pool& pool, uint32_t place) {
  Entry& entry = pool.entries[place];
  if (entry.keepers > 0 || entry.loose) return;
  entry.loose = true;
  pool.loose.push_back(place);
}

/// The handles of a tensor, whose strings stay as long as they do.
struct Kept {
  std::vector<uint64_t> handles;

  Kept() = default;
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() {
    Pool& pool = ThePool();
    for (const uint64_t handle : handles) {
      const auto place = static_cast<uint32_t>(handle);
      if (place == 0) continue;
      pool.entries[place].asked = pool.runs;  // a run that goes on may have moved it elsewhere
      --pool.entries[place].keepers;
      Loosen(pool, place);
    }
  }
  void Add(std::string_view text) {
    handles.reserve(handles.size() + 1);
    const uint64_t handle = TextHandle(text);
    handles.push_back(handle);
    if (handle != 0) ++EntryOf(handle).keepers;
  }
};

}  // namespace

uint64_t TextHandle(std::string_view text) {
  if (text.empty()) return 0;
  Pool& pool = ThePool();
  const auto found = pool.places.find(text);
  if (found != pool.places.end()) {
    Entry& entry = pool.entries[found->second];
    entry.asked = pool.runs;
    return uint64_t{entry.generation} << 32 | found->second;
  }
  if (pool.free.empty()) {
    pool.entries.emplace_back();
    pool.free.push_back(static_cast<uint32_t>(pool.entries.size() - 1));
  }
  const uint32_t place = pool.free.back();
  Entry& entry = pool.entries[place];
  entry.text = text;
  pool.places.emplace(entry.text, place);
  pool.free.pop_back();
  entry.asked = pool.runs;
  entry.used = true;
  Loosen(pool, place);
  return uint64_t{entry.generation} << 32 | place;
}

std::string_view TextOf(uint64_t handle) { return EntryOf(handle).text; }

Tensor TextTensor(std::span<const std::string> texts, const Shape& shape) {
  if (static_cast<int64_t>(texts.size()) != NumElements(shape)) {
    Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("string"), ShapeToString(shape), " has ",
                                          texts.size(), RQ_LATE_TEXT(" elements of data")));
  }
  auto kept = std::make_shared<Kept>();
  kept->handles.reserve(texts.size());
  for (const std::string& text : texts) kept->Add(text);
  const auto* bytes = reinterpret_cast<const uint8_t*>(kept->handles.data());
  return Tensor::View(DType::kString, shape, {bytes, texts.size() * sizeof(uint64_t)}, kept);
}

std::vector<std::string_view> TextsOf(const Tensor& tensor) {
  if (tensor.dtype() != DType::kString) {
    Fail(ErrorCode::kTypeMismatch,
         StrCat(RQ_LATE_TEXT("a tensor of strings is needed, not of "), DTypeName(tensor.dtype())));
  }
  std::vector<std::string_view> out;
  const auto* handles = static_cast<const uint64_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.count(); ++i) out.push_back(TextOf(handles[i]));
  return out;
}

void BeginTextRun() {
  Pool& pool = ThePool();
  if (pool.holds > 0) return;
  std::erase_if(pool.loose, [&pool](uint32_t place) {
    Entry& entry = pool.entries[place];
    if (entry.keepers == 0 && entry.asked >= pool.runs) return false;
    entry.loose = false;
    if (entry.keepers > 0) return true;
    pool.places.erase(entry.text);
    std::string().swap(entry.text);
    ++entry.generation;
    entry.used = false;
    pool.free.push_back(place);
    return true;
  });
  ++pool.runs;
}

TextHold::TextHold() { ++ThePool().holds; }
TextHold::~TextHold() { --ThePool().holds; }

size_t TextCount() { return ThePool().places.size(); }

}  // namespace requant
