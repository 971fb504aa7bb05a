#include "client/cli/progress_line.h"

#include <algorithm>
#include <iostream>

namespace topk::cli {

ProgressLine::~ProgressLine() {
  if (open_) std::cerr << "\n";
}

bool ProgressLine::Due() const {
  return std::chrono::steady_clock::now() - shown_ >=
         std::chrono::milliseconds(100);
}

void ProgressLine::Show(std::string_view text, bool last) {
  shown_ = std::chrono::steady_clock::now();
  open_ = !last;
  // Clears what a longer line left.
  std::cerr << "\r" << text << "\033[K" << (last ? "\n" : "") << std::flush;
}

double ProgressLine::Seconds() const {
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - start_;
  return std::max(passed.count(), 1e-9);
}

}  // namespace topk::cli
