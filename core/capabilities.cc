// Implements Engine::GetCapabilities().
#include "core/dialects/registry.h"
#include "core/engine.h"

namespace topk {
namespace {

constexpr std::string_view kOrderingRule =
    "Elements rank by value, descending for the largest and ascending for the "
    "smallest, then by index, ascending in both. -0 equals +0; every NaN is "
    "one value, above +infinity. The first k in rank are the answer, in rank "
    "order or, for sort = index, by ascending index. Values are bit copies of "
    "the input.";

void AddTypes(std::span<const DType> types,
              google::protobuf::RepeatedField<int>* field) {
  for (const DType type : types) field->Add(static_cast<int>(type));
}

}  // namespace

v1::Capabilities Engine::GetCapabilities() const {
  v1::Capabilities capabilities;
  for (const Dialect* dialect : Dialects()) {
    for (const OperatorVersion& version : dialect->versions) {
      v1::OperatorCapability& row = *capabilities.add_operators();
      row.mutable_spec()->set_dialect(dialect->id);
      row.mutable_spec()->set_version(version.version);
      row.set_name(std::string(version.name));
      AddTypes(version.data_types, row.mutable_data_types());
      AddTypes(version.index_types, row.mutable_index_types());
    }
  }
  for (const std::unique_ptr<Backend>& backend : backends_) {
    v1::BackendCapability& row = *capabilities.add_backends();
    row.set_name(std::string(backend->name()));
    row.set_instruction_set(std::string(backend->instruction_set()));
    row.set_thread_count(backend->threads());
  }
  v1::Limits& limits = *capabilities.mutable_limits();
  limits.set_max_elements(limits_.max_elements);
  limits.set_max_output_bytes(limits_.max_output_bytes);
  limits.set_max_selected_elements(limits_.max_selected_elements);
  limits.set_max_rank(limits_.max_rank);
  capabilities.set_ordering_rule(std::string(kOrderingRule));
  capabilities.set_build_version(TOPK_VERSION);
  return capabilities;
}

}  // namespace topk
