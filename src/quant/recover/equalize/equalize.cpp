// Cross-layer equalization (Nagel et al. 2019, arXiv 1906.04721): channel i of a first layer is
// divided by s_i = sqrt(r1_i * r2_i) / r2_i, and the weights that read it are multiplied by s_i, so
// that both have the range sqrt(r1_i * r2_i). This is repeated over all pairs until nothing
// changes. Depthwise layers are second of one pair and first of the next.
//
// Relu commutes with factors. ReLU6 does not: "equalize" leaves such pairs alone, and
// "equalize_relu6" replaces it by Relu, as in the paper. That changes the float network: a little
// if clipping is rare, much if the network was trained to rely on it. The result's detail gives the
// number of replacements.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/str_cat.h"
#include "quant/recover/equalize/chains.h"
#include "quant/recover/recovery.h"

namespace requant {

namespace {

Rewritten Equalize(Graph& graph, bool through_clips) {
  std::vector<LayerPair> pairs = FindPairs(graph);
  std::erase_if(pairs, [through_clips](const LayerPair& pair) {
    return pair.activation && pair.activation->Is(Op::kClip) && !through_clips;
  });
  std::map<Node*, WeightEditor> editors;
  std::set<Node*> clips;
  size_t equalized = 0;
  for (const LayerPair& pair : pairs) {
    editors.try_emplace(pair.first, graph, pair.first);
    editors.try_emplace(pair.second, graph, pair.second);
    WeightEditor& first = editors.at(pair.first);
    // A bias of one number for all channels cannot be scaled channel by channel.
    if (!first.bias.empty() && first.bias.count() != pair.channels) continue;
    if (pair.activation && pair.activation->Is(Op::kClip)) clips.insert(pair.activation);
    ++equalized;
  }
  for (int round = 0; round < 20; ++round) {
    double moved = 0;
    for (const LayerPair& pair : pairs) {
      WeightEditor& first = editors.at(pair.first);
      WeightEditor& second = editors.at(pair.second);
      if (!first.bias.empty() && first.bias.count() != pair.channels) continue;
      for (int64_t i = 0; i < pair.channels; ++i) {
        const double r1 = first.OutputRange(i);
        const double r2 = second.InputRange(i);
        if (!(r1 > 1e-12) || !(r2 > 1e-12)) continue;
        const double s = std::clamp(std::sqrt(r1 * r2) / r2, 1e-3, 1e3);
        first.ScaleOutput(i, 1 / s);
        second.ScaleInput(i, s);
        moved = std::max(moved, std::fabs(std::log(s)));
      }
    }
    if (moved < 1e-3) break;
  }
  // in the order of nodes, not of addresses, so that names do not vary
  for (const auto& node : graph.nodes()) {
    const auto editor = editors.find(node.get());
    if (editor != editors.end()) editor->second.Store();
  }
  for (Node* clip : clips) {
    clip->Retype(Op::kRelu);
    clip->inputs.resize(1);
  }
  if (!clips.empty()) {
    // Drop the links of bounds that are no longer read.
    for (const auto& value : graph.values()) {
      std::erase_if(value->consumers, [&](const Node* consumer) {
        return clips.contains(const_cast<Node*>(consumer)) && consumer->inputs[0] != value.get();
      });
    }
  }
  graph.RemoveUnusedValues();
  return {static_cast<int64_t>(equalized),
          StrCat(equalized, " pairs of layers equalized",
                 clips.empty() ? std::string() : StrCat(", ", clips.size(), " clips became Relu"))};
}

}  // namespace

Rewritten EqualizeLayers(Graph& graph, const QuantizeOptions&) { return Equalize(graph, false); }
Rewritten EqualizeThroughClips(Graph& graph, const QuantizeOptions&) {
  return Equalize(graph, true);
}

}  // namespace requant
