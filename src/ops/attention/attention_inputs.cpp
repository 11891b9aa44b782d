// Reads masks, queries, keys and values with their past for runs of the attention operators.
#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/attention/attention.h"
#include "ops/attention/rotary.h"

namespace requant {

AttentionInputs::AttentionInputs(const AttentionForm& form, std::span<const Tensor* const> inputs)
    : form_(form), inputs_(inputs) {
  if (form.mask_slot >= 0) {
    const Tensor& mask = *inputs[static_cast<size_t>(form.mask_slot)];
    mask_per_head_ = mask.rank() >= 3 && mask.dim(mask.rank() - 3) > 1;
  }
  for (int64_t b = 0; form.lengths_slot >= 0 && b < form.batch; ++b) {
    const int64_t length = Length(b);
    if (length < 0 || length > form.keys) {
      Fail(ErrorCode::kInvalidArgument, StrCat("a length of ", length, " of ", form.keys, " keys"));
    }
  }
}

const float* AttentionInputs::data(int32_t slot) const {
  return slot < 0 ? nullptr : inputs_[static_cast<size_t>(slot)]->data<float>();
}

/// The number of keys that image b has.
int64_t AttentionInputs::Length(int64_t b) const {
  const int64_t given = inputs_[static_cast<size_t>(form_.lengths_slot)]->AsInt64(b);
  // The constructor refuses lengths beyond any cache.
  return form_.cached ? std::min(given, form_.keys) + 1 : given;
}

int64_t AttentionInputs::PastOf(int64_t b) const {
  if (!form_.cached) return form_.past;
  return form_.first ? 0 : std::max<int64_t>(0, Length(b) - form_.queries);
}

void AttentionInputs::AddMask(int64_t b, int64_t h, float* out) const {
  const Tensor& mask = *inputs_[static_cast<size_t>(form_.mask_slot)];
  const int64_t rank = mask.rank();
  const auto size = [&](int64_t from_end) {
    return from_end < rank ? mask.dim(rank - 1 - from_end) : 1;
  };
  const int64_t columns = size(0);
  const int64_t rows = size(1);
  const int64_t plane = rows * columns;
  int64_t at = 0;
  if (size(2) > 1) at += h * plane;
  if (size(3) > 1) at += b * size(2) * plane;
  const bool stretched = columns == 1 && form_.keys > 1 && !form_.mask_pads;
  const bool boolean = mask.dtype() == DType::kBool;
  for (int64_t i = 0; i < form_.queries; ++i) {
    const int64_t row = at + (rows > 1 ? i * columns : 0);
    float* to = out + i * form_.keys;
    for (int64_t j = 0; j < form_.keys; ++j) {
      if (!stretched && j >= columns) {
        to[j] += form_.forbidden;
        continue;
      }
      const int64_t from = row + (stretched ? 0 : j);
      if (boolean) {
        if (mask.data<uint8_t>()[from] == 0) to[j] += form_.forbidden;
      } else {
        to[j] += mask.data<float>()[from];
      }
    }
  }
}

/// Adds a padding mask: lengths [batch], or [batch, keys] or [batch, queries, keys] where 0 hides a
/// key.
void AttentionInputs::AddPadding(int64_t b, float* out) const {
  const Tensor& padding = *inputs_[static_cast<size_t>(form_.padding_slot)];
  const int64_t end = padding.rank() == 1 ? padding.AsInt64(b) : form_.keys;
  for (int64_t i = 0; i < form_.queries; ++i) {
    for (int64_t j = 0; j < form_.keys; ++j) {
      bool seen = j < end;
      if (padding.rank() == 2) seen = padding.AsInt64(b * form_.keys + j) != 0;
      if (padding.rank() == 3) {
        seen = padding.AsInt64((b * form_.queries + i) * form_.keys + j) != 0;
      }
      if (!seen) out[i * form_.keys + j] += form_.forbidden;
    }
  }
}

/// Hides keys beyond the causal border, the window and the lengths.
void AttentionInputs::Hide(int64_t b, float* out) const {
  const int64_t length = form_.lengths_slot >= 0 ? Length(b) : form_.keys;
  // Query i is aligned with key i + border.
  const int64_t border =
      form_.lengths_slot >= 0 && !form_.cached ? length - form_.queries : PastOf(b);
  for (int64_t i = 0; i < form_.queries; ++i) {
    // The query sees keys [first, last). Rows that pad a cached prompt see some keys, too.
    int64_t last = form_.cached ? std::max(length, i + border + 1) : length;
    if (form_.causal) last = std::clamp<int64_t>(i + border + 1, 0, last);
    const int64_t first =
        form_.window >= 0 ? std::clamp<int64_t>(i + border + 1 - form_.window, 0, last) : 0;
    float* row = out + i * form_.keys;
    std::fill(row, row + first, form_.hidden);
    std::fill(row + std::min(last, form_.keys), row + form_.keys, form_.hidden);
  }
}

void AttentionInputs::Mask(int64_t b, int64_t h, float* out) const {
  std::fill(out, out + form_.queries * form_.keys, 0.0F);
  if (form_.mask_slot >= 0) AddMask(b, h, out);
  if (form_.padding_slot >= 0) AddPadding(b, out);
  if (form_.causal || form_.window >= 0 || form_.lengths_slot >= 0) Hide(b, out);
}

/// Rotates a token of q or k; those of the past are rotated already.
void AttentionInputs::Rotate(int64_t b, int64_t token, float* row) const {
  int64_t position = PastOf(b) + token;
  if (form_.positions_slot >= 0) {
    position =
        inputs_[static_cast<size_t>(form_.positions_slot)]->AsInt64(b * form_.queries + token);
  }
  if (position < 0 || position >= form_.rotary_positions) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("position ", position, " of ", form_.rotary_positions, " in the rotary caches"));
  }
  RotateRow(row, data(form_.cos_slot) + position * form_.rotary_half,
            data(form_.sin_slot) + position * form_.rotary_half, form_.rotary_half,
            form_.interleaved);
}

void AttentionInputs::Queries(int64_t b, int64_t h, int64_t first, int64_t count,
                              float* out) const {
  const float* from = data(0);
  for (int64_t t = first; t < first + count; ++t, out += form_.width) {
    std::copy_n(from + form_.q.At(b, h, t), form_.width, out);
    if (form_.cos_slot >= 0) Rotate(b, t, out);
  }
}

void AttentionInputs::Join(int64_t b, const float* past, const float* fresh,
                           const HeadLayout& layout, int64_t width, bool rotate,
                           const JoinedTokens& out) const {
  const int64_t kept = PastOf(b);
  for (int64_t h = 0; h < form_.kv_heads; ++h) {
    float* to = out.data + h * out.head;
    std::fill(to + form_.past * width, to + form_.keys * width, 0.0F);
    if (past && !out.has_past) {
      std::copy_n(past + (b * form_.kv_heads + h) * form_.past * width, form_.past * width, to);
    }
    for (int64_t t = 0; t < form_.fresh && kept + t < form_.keys; ++t) {
      float* row = to + (kept + t) * width;
      std::copy_n(fresh + layout.At(b, h, t), width, row);
      if (rotate) Rotate(b, t, row);
    }
  }
}

void AttentionInputs::Keys(int64_t b, const JoinedTokens& out) const {
  Join(b, data(form_.past_k_slot), data(form_.k_slot), form_.k, form_.width, form_.cos_slot >= 0,
       out);
}

void AttentionInputs::Values(int64_t b, const JoinedTokens& out) const {
  Join(b, data(form_.past_v_slot), data(form_.v_slot), form_.v, form_.value_width, false, out);
}

}  // namespace requant
