// Reads and writes the config file.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

namespace topk {

/// A value from the config file, as text in the format of a flag's value.
struct FileValue {
  /// "FILE:LINE:COLUMN: KEY", for error messages.
  std::string source;
  /// The value, or the elements of an array.
  std::vector<std::string> texts;
};

/// The values of the options that the config file sets.
using FileValues = std::map<const CLI::Option*, FileValue>;

/// Reads a TOML file whose keys are the names of the program's options, and
/// adds the values to `values`. Throws CLI::FileError if the file cannot be
/// read. Throws CLI::ConfigError for invalid TOML, and for the first unknown
/// key or value of the wrong type, after adding the other values.
void ReadConfigFile(const CLI::App& app, const std::string& path,
                    FileValues& values);

/// Returns the effective settings as TOML. Throws CLI::ValidationError if a
/// value contains control characters or is not valid UTF-8.
std::string WriteConfigFile(const CLI::App& app);

}  // namespace topk
