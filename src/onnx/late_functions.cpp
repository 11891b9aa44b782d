#include "onnx/local_functions.h"

namespace requant {

const LateFunction<decltype(ReadLocalFunctions)> kReadLocalFunctions{ReadLocalFunctions,
                                                                     "ReadLocalFunctions"};
const LateFunction<decltype(ExpandCall)> kExpandCall{ExpandCall, "ExpandCall"};
const LateFunction<decltype(RaiseNode)> kRaiseNode{RaiseNode, "RaiseNode"};
const LateFunction<decltype(ReadSparseTensor)> kReadSparseTensor{ReadSparseTensor,
                                                                 "ReadSparseTensor"};

}  // namespace requant
