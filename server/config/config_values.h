// Validators for setting values. Some rewrite the value in a normal form.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace topk {

/// A gRPC listening address: host:port (IPv6 addresses in brackets) or
/// unix:path. Rewrites unix:///path as unix:/path.
CLI::Validator Address();

/// host:port or an empty value.
CLI::Validator PlainAddress();

/// An HTTP listening address: host:port over IPv4, or an empty value.
CLI::Validator HttpAddress();

/// The URL of a collector, http://host:port or https://host:port, or an empty
/// value. Adds the default port if there is none.
CLI::Validator Collector();

/// Checks the URL of a collector. Returns an error message if it is invalid.
/// Otherwise adds the default port if there is none, and returns "".
std::string CheckCollector(std::string& url);

/// File permissions in octal.
CLI::Validator OctalMode();

/// A name prefix of POSIX shared memory objects.
CLI::Validator ObjectPrefix();

/// A duration, in seconds or with a unit. Rewrites it as a number of seconds.
CLI::Validator Seconds(double least, double most);

/// A number between 0 and 1.
CLI::Validator Share();

/// Events or bytes per second; 0 = no limit.
CLI::Validator Rate();

/// A number of bytes, with or without a unit: 65536, 64KiB, 1.5GiB. Rewrites it
/// as a number, rounded up to an integer.
CLI::Validator Bytes(int64_t least, int64_t most);

/// An integer. Rewrites it as CheckWhole() does.
CLI::Validator Whole(int64_t least, int64_t most);

}  // namespace topk
