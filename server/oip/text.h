// How Triton's messages, which clients look for, have names in them.
#pragma once

#include <string>
#include <string_view>

#include "core/base/text.h"

namespace topk {

/// Quote() with single quotes.
inline std::string Tick(std::string_view text) {
  std::string ticked = Quote(text);
  ticked.front() = ticked.back() = '\'';
  return ticked;
}

}  // namespace topk
