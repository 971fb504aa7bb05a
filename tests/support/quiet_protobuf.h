// Stops protobuf from logging every malformed message.
#pragma once

#include <google/protobuf/stubs/common.h>

#if GOOGLE_PROTOBUF_VERSION >= 4022000
#include <absl/log/globals.h>
#else
#include <google/protobuf/stubs/logging.h>
#endif

namespace topk::testing {

#if GOOGLE_PROTOBUF_VERSION >= 4022000
class QuietProtobuf {
 public:
  QuietProtobuf() {
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kFatal);
  }
};
#else
using QuietProtobuf = google::protobuf::LogSilencer;
#endif

}  // namespace topk::testing
