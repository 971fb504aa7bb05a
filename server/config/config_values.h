// Validators for the values of settings.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace topk {

/// Where to serve: host:port, the host an IPv6 address in brackets if it is
/// one, or unix:path; rewrites unix:///path as unix:/path.
CLI::Validator Address();

/// host:port, or nothing.
CLI::Validator PlainAddress();

/// Where to serve HTTP: host:port over IPv4, or nothing.
CLI::Validator HttpAddress();

/// The URL of a collector, http://host:port or https://host:port, or nothing;
/// adds the default port.
CLI::Validator Collector();

/// Returns why a text is not the URL of a collector, else completes it and
/// returns "".
std::string CheckCollector(std::string& url);

/// Permissions in octal.
CLI::Validator OctalMode();

/// Accepts a prefix of names of POSIX shared memory objects.
CLI::Validator ObjectPrefix();

/// A duration in seconds, with or without a unit; rewrites it as a number.
CLI::Validator Seconds(double least, double most);

/// A number of 0 to 1.
CLI::Validator Share();

/// Events or bytes per second; 0 = no limit.
CLI::Validator Rate();

/// A number of bytes, with or without a unit: 65536, 64KiB, 1.5GiB; rewrites it
/// as a number, rounded up.
CLI::Validator Bytes(int64_t least, int64_t most);

/// A whole number, as CheckWhole() reads it.
CLI::Validator Whole(int64_t least, int64_t most);

}  // namespace topk
