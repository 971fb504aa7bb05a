#include "client/bench/mix.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

using Json = nlohmann::json;

// Upper bound on a weight, so that the sum of all weights does not overflow.
constexpr double kMaxWeight = 1e9;
constexpr char kWeight[] = "must be a number above 0, at most 1e9";

// Returns false unless the value is an integer that fits into int64_t.
bool GetInteger(const Json& value, int64_t* integer) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
    return false;
  }
  *integer = value.get<int64_t>();
  return true;
}

bool GetShape(const Json& value, std::vector<int64_t>* shape) {
  if (!value.is_array()) return false;
  shape->clear();
  for (const Json& size : value) {
    if (!GetInteger(size, &shape->emplace_back()) || shape->back() < 0) {
      return false;
    }
  }
  return true;
}

// Sets the field `key`. Returns the rule that `value` violates, or "".
std::string_view SetKey(std::string_view key, const Json& value,
                        RequestSpec& kind) {
  if (key == "weight") {
    if (!value.is_number()) return kWeight;
    kind.weight = value.get<double>();
    if (!(kind.weight > 0 && kind.weight <= kMaxWeight)) return kWeight;
  } else if (key == "shape") {
    if (!GetShape(value, &kind.shape)) return "must be a list of sizes >= 0";
  } else if (key == "dtype") {
    if (!value.is_string() ||
        FindDType(value.get_ref<const std::string&>()) == nullptr) {
      return "must be an element type, e.g. \"f32\"";
    }
    kind.dtype = value.get<std::string>();
  } else if (key == "k") {
    if (!GetInteger(value, &kind.operation.k)) return "must be an integer";
  } else if (key == "axis") {
    if (!GetInteger(value, &kind.operation.axis.emplace())) {
      return "must be an integer";
    }
  } else if (key == "smallest") {
    if (!value.is_boolean()) return "must be true or false";
    kind.operation.smallest = value.get<bool>();
  } else {
    return "is not a key of a mix: weight, shape, dtype, k, axis, smallest";
  }
  return "";
}

}  // namespace

std::string RequestSpec::Name() const {
  std::string name;
  for (const int64_t size : shape) {
    name += StrCat(name.empty() ? "" : "x", size);
  }
  name += StrCat(" ", dtype, " k ", operation.k);
  if (operation.axis) name += StrCat(" axis ", *operation.axis);
  if (operation.smallest) name += " smallest";
  return name;
}

Result<std::vector<RequestSpec>> ParseMix(std::istream& in,
                                          const std::string& name,
                                          const RequestSpec& defaults) {
  const auto bad = [](const std::string& where, std::string_view what) {
    return InvalidArgument("MIX", where, StrCat(where, ": ", what));
  };
  std::vector<RequestSpec> kinds;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = StrCat(name, ":", number);
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return bad(where, "is not a JSON object");
    RequestSpec kind = defaults;
    kind.origin = StrCat(where, ": shape");
    for (const auto& [key, value] : object.items()) {
      const std::string_view fault = SetKey(key, value, kind);
      if (!fault.empty()) return bad(StrCat(where, ": ", key), fault);
    }
    if (kind.operation.k == 0) {
      return bad(StrCat(where, ": k"),
                 "must be set here or by --k, and must not be 0");
    }
    kinds.push_back(std::move(kind));
  }
  if (kinds.empty()) return bad(name, "has no requests");
  return kinds;
}

}  // namespace topk::cli
