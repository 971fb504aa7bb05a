// Validators for the values of settings.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace topk {

/// An address to serve gRPC on: host:port, with an IPv6 address in brackets, or
/// unix:path. Rewrites unix:///path as unix:/path.
CLI::Validator Address();

/// host:port, or nothing.
CLI::Validator PlainAddress();

/// An address to serve HTTP on: host:port over IPv4, or nothing.
CLI::Validator HttpAddress();

/// The URL of a collector, http://host:port or https://host:port, or nothing.
/// Adds the default port.
CLI::Validator Collector();

/// Returns the rule that the URL of a collector breaks. For a valid one,
/// returns
/// "" and adds the default port.
std::string CheckCollector(std::string& url);

/// File permissions in octal.
CLI::Validator OctalMode();

/// A prefix of the names of POSIX shared memory objects.
CLI::Validator ObjectPrefix();

/// A duration in seconds, or with a unit. Rewrites it as a number of seconds.
CLI::Validator Seconds(double least, double most);

/// A number of 0 to 1.
CLI::Validator Share();

/// Events or bytes per second; 0 = no limit.
CLI::Validator Rate();

/// A number of bytes, with or without a unit: 65536, 64KiB, 1.5GiB. Rewrites it
/// as a number, rounded up.
CLI::Validator Bytes(int64_t least, int64_t most);

/// A whole number. Rewrites it as CheckWhole() does.
CLI::Validator Whole(int64_t least, int64_t most);

}  // namespace topk
