// The base of the steps of attention finds operands and masks, and walks over images, heads and
// panels of queries. A class derived from it multiplies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention/attention.h"
#include "plan/archive.h"
#include "plan/lower/sequence/attention_places.h"
#include "plan/lower/sequence/growing.h"
#include "plan/lower/sequence/score_rows.h"
#include "plan/lower/steps.h"

namespace requant {

/// Every head takes two products and a softmax between them. Queries go in panels, so that their
/// scores stay in a cache; as many heads run at a time as there are threads.
class AttentionStep : public Step {
 public:
  void Run(const RunContext& context) const override;

  AttentionForm form;
  AttentionPlaces places;
  int64_t panel = 0;  // queries of a panel
  int lanes = 1;
  /// Whether the mask is added from its own memory: it has numbers for all keys, and nothing else
  /// hides any.
  bool mask_in_place = false;
  std::vector<int> slots;     // indexed by input slot of the node; -1 where left out
  int present[2] = {-1, -1};  // slots of the outputs; -1 where nothing reads them
  /// Whether the keys, or the values, are read where they grow: the output that has their past in
  /// its memory, or an input.
  bool grows[2] = {false, false};

 protected:
  /// The operands and memory of one lane's head.
  struct Lane {
    int64_t head = 0;
    uint8_t* memory = nullptr;
    const float* keys = nullptr;
    const float* values = nullptr;
    int64_t key_stride = 0, value_stride = 0;  // floats between tokens
    const float* mask = nullptr;
    int64_t mask_stride = 0;

    /// The addend of the scores of a query and those behind it, or nullptr.
    const float* MaskAt(int64_t query) const { return mask ? mask + query * mask_stride : nullptr; }
    template <typename T>
    T* At(size_t place) const {
      return reinterpret_cast<T*>(memory + place);
    }
  };

  /// Fields of the plan that all these steps have.
  void CommonFields(PlanArchive& archive);
  /// Prepares the keys and values of these lanes' heads.
  virtual void Pack(const RunContext& context, std::span<const Lane> heads) const = 0;
  /// Computes queries [query, query + panel) of the lanes' heads.
  virtual void RunPanel(const RunContext& context, const AttentionInputs& source, int64_t b,
                        int64_t query, std::span<const Lane> used) const = 0;
  /// The queries of a panel that begins at `query`.
  int64_t CountAt(int64_t query) const { return std::min(panel, form.queries - query); }

 private:
  /// k or v as [heads][tokens], with the distances between heads and tokens.
  struct Operand {
    const float* data;
    int64_t head, token;
  };

  Operand OperandOf(const RunContext& context, const AttentionInputs& source, int64_t b,
                    bool keys) const;
  CodedTokens CodedPast(const RunContext& context, int64_t b, bool keys, int slot,
                        int64_t count) const;
  float* JoinedFloats(const RunContext& context, bool keys) const;
  void RunImage(const RunContext& context, const AttentionInputs& source, int64_t b) const;
  void SetMask(const RunContext& context, const AttentionInputs& source, int64_t b, uint8_t* memory,
               Lane& lane) const;
};

/// Applies the cap, the mask behind it and the sinks, if the form has any, to a panel of scores of
/// a head. `mask` is added only behind a cap; without one the products have added it.
void FinishScores(const AttentionForm& form, const AttentionInputs& source, int64_t head,
                  const ScoreRows& rows, const float* mask, int64_t mask_stride);

}  // namespace requant
