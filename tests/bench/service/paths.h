// The measured paths. Each prints its rows, a line of JSON each, to stdout.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/service/question.h"

namespace topk::bench {

constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kMiB = 1 << 20;

/// The arguments of a run.
struct Run {
  /// The servers' addresses by name: "topkd", "null", ...; see main.cc.
  std::map<std::string, std::string> servers;
  /// The processes of the servers whose memory is measured.
  std::map<std::string, int> processes;
  /// The peers' command that sends by Arrow Flight.
  std::string flight_client;
  /// The shared memory object to make and to remove.
  std::string shared_memory;
  /// For each row and side.
  double seconds = 3;
  /// The largest tensor, in bytes.
  int64_t max_bytes = int64_t{256} << 20;
  /// As little of everything as shows that it works.
  bool quick = false;
};

// Each of these is a path. They throw std::runtime_error if anything fails.

/// ComputeTopK.
void MeasureUnary(const Run& run);
/// ModelInfer of the Open Inference Protocol, compared with ComputeTopK.
void MeasureOip(const Run& run);
/// StreamTopK.
void MeasureStream(const Run& run);
/// StreamTopK, compared with raw TCP and Arrow Flight.
void MeasurePeers(const Run& run);
/// ComputeTopKMany, compared with the null server's ComputeTopK.
void MeasureMany(const Run& run);
/// ComputeTopK over a Unix socket, compared with TCP.
void MeasureUnix(const Run& run);
/// ComputeTopK of a tensor in shared memory; a note if the server allows none.
void MeasureShared(const Run& run);
/// ComputeTopK, compared with a server in Python.
void MeasurePython(const Run& run);
/// ComputeTopK after seconds without a call.
void MeasureIdle(const Run& run);
/// The growth of the server's memory.
void MeasureMemory(const Run& run);

/// A line of output.
using Row = nlohmann::ordered_json;

/// Returns a figure as rows have it.
double Rounded(double figure);

/// Prints a row.
void Print(const Row& row);

}  // namespace topk::bench
