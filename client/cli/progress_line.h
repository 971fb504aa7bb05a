// How far something is, on one line of the terminal.
#pragma once

#include <chrono>
#include <string_view>

namespace topk::cli {

/// A line on stderr that overwrites itself.
class ProgressLine {
 public:
  /// If the work ended early, the last line stays visible.
  ~ProgressLine();

  /// Whether the last one was shown 100 ms ago or longer.
  bool Due() const;

  /// Writes the line over the last one.
  void Show(std::string_view text, bool last);

  /// The seconds since this was made; above 0.
  double Seconds() const;

 private:
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_;
  bool open_ = false;
};

}  // namespace topk::cli
