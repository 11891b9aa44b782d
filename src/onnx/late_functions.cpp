#include "onnx/local_functions.h"
#include "onnx/text_data.h"
#include "onnx/upgrade.h"

namespace requant {

const LateFunction<decltype(ReadLocalFunctions)> kReadLocalFunctions{ReadLocalFunctions,
                                                                     "ReadLocalFunctions"};
const LateFunction<decltype(ExpandCall)> kExpandCall{ExpandCall, "ExpandCall"};
const LateFunction<decltype(RaiseNode)> kRaiseNode{RaiseNode, "RaiseNode"};
const LateFunction<decltype(ReadSparseTensor)> kReadSparseTensor{ReadSparseTensor,
                                                                 "ReadSparseTensor"};
const LateFunction<decltype(ReadTexts)> kReadTexts{ReadTexts, "ReadTexts"};
const LateFunction<decltype(WriteTexts)> kWriteTexts{WriteTexts, "WriteTexts"};
const LateFunction<decltype(UpgradeOpset)> kUpgradeOpset{UpgradeOpset, "UpgradeOpset"};

}  // namespace requant
