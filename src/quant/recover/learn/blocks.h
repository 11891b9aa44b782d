// The network in pieces that are reconstructed one after the other.
#pragma once

#include <vector>

#include "quant/sim/simulator.h"

namespace requant {

/// The nodes [begin, end) of the simulator.
struct Block {
  size_t begin = 0, end = 0;
  std::vector<const Node*> layers;    // quantized layers with weights
  std::vector<const Value*> outputs;  // values that later nodes or the user read
};

/// Finds blocks of one layer: every layer with weights ends a block, together with the clamp that
/// it computes.
std::vector<Block> LayersAsBlocks(Simulator& simulator);
/// Finds larger blocks: they end where a single value goes on (the residual blocks of BRECQ, Li et
/// al. 2021, arXiv 2102.05426) once they have two layers, and before operators without gradient. A
/// block takes one more layer along if that leaves less than half of the elements between the two.
std::vector<Block> ResidualBlocks(Simulator& simulator);

}  // namespace requant
