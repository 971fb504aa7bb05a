#include "client/cli/request.h"

#include <algorithm>
#include <limits>
#include <string>

#include "client/cli/number_flag.h"
#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"

namespace topk::cli {
namespace {

// The types of indices that can be chosen: those of the newest versions that
// have several.
struct IndexTypes {
  std::vector<std::string> names;
  /// E.g. "OpenVINO i32 or i64, DirectML u32 or u64".
  std::string text;
};

IndexTypes ListIndexTypes() {
  IndexTypes types;
  for (const Dialect* dialect : Dialects()) {
    std::string names;
    if (dialect->versions.back().index_types.size() < 2) continue;
    for (const DType type : dialect->versions.back().index_types) {
      types.names.emplace_back(InfoOf(type).name);
      names += StrCat(names.empty() ? " " : " or ", InfoOf(type).name);
    }
    types.text += StrCat(types.text.empty() ? "" : ", ", dialect->title, names);
  }
  return types;
}

}  // namespace

void AddOperatorFlags(CLI::App& command, OperatorFlags& flags) {
  std::vector<std::string> dialects;
  for (const Dialect* dialect : Dialects()) {
    dialects.emplace_back(dialect->name);
  }
  const IndexTypes index_types = ListIndexTypes();
  command.add_option("--k", flags.k, "Number of elements to select")
      ->required()
      ->transform(Whole());
  command
      .add_option("--axis", flags.axis,
                  "Dimension to select along; default: the last")
      ->transform(Whole());
  command.add_flag("--smallest", flags.smallest,
                   "Select the smallest elements, not the largest");
  command
      .add_option("--dialect", flags.dialect, "Specification of the operator")
      ->check(CLI::IsMember(dialects))
      ->capture_default_str();
  command
      .add_option("--version", flags.version,
                  "Operator version of the dialect; default: the newest")
      ->transform(Whole(std::numeric_limits<int32_t>::min(),
                        std::numeric_limits<int32_t>::max()));
  command.add_option("--order", flags.order, "Order of the selected elements")
      ->check(CLI::IsMember({"value", "index", "none"}))
      ->capture_default_str();
  command
      .add_option("--index-type", flags.index_type,
                  StrCat("Type of the indices: ", index_types.text))
      ->check(CLI::IsMember(index_types.names));
  for (const Dialect* dialect : Dialects()) {
    for (const DialectFlag& flag : dialect->flags) {
      const std::string name(flag.name);
      const std::string help(flag.help);
      const auto set = [&flags, name](const std::string& value) {
        flags.own[name] = value;
      };
      if (flag.has_value) {
        command.add_option_function<std::string>(name, set, help);
      } else {
        command.add_flag_callback(
            name, [set] { set(""); }, help);
      }
    }
  }
  command.add_option("--request-id", flags.request_id,
                     "ID that the server returns and logs");
}

Result<v1::TopKRequest> MakeRequest(const OperatorFlags& flags,
                                    v1::DataType data_type,
                                    const std::vector<int64_t>& shape) {
  v1::TopKRequest request;
  request.set_request_id(flags.request_id);
  request.mutable_tensor()->set_data_type(data_type);
  request.mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  const Dialect* const dialect = *std::ranges::find(
      Dialects(), std::string_view(flags.dialect), &Dialect::name);
  for (const auto& [name, value] : flags.own) {
    if (!std::ranges::count(dialect->flags, std::string_view(name),
                            &DialectFlag::name)) {
      return InvalidArgument("FLAG", name,
                             StrCat(flags.dialect, " has no ", name));
    }
  }
  request.mutable_spec()->set_dialect(dialect->id);
  request.mutable_spec()->set_version(
      flags.version.value_or(dialect->versions.back().version));
  if (Status s = dialect->fill(flags, request); !s.ok()) return s;
  return request;
}

}  // namespace topk::cli
