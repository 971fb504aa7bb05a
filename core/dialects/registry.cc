#include "core/dialects/registry.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "core/base/text.h"

namespace topk {

// Each dialect is defined in the file of the same name.
extern const Dialect kOnnx;
extern const Dialect kOpenVino;
extern const Dialect kDirectML;

namespace {

constexpr const Dialect* kDialects[] = {
    &kOnnx,
    &kOpenVino,
    &kDirectML,
};

// Returns the dialect with `dialect.*member == value`, or null.
template <class Value>
const Dialect* Find(Value Dialect::*member, Value value) {
  const auto* found = std::ranges::find(kDialects, value, member);
  return found == std::end(kDialects) ? nullptr : *found;
}

Status UnknownDialect(int number) {
  std::string known;
  for (const Dialect* dialect : kDialects) {
    if (!known.empty())
      known += dialect == *std::rbegin(kDialects) ? " or " : ", ";
    known += StrCat(static_cast<int>(dialect->id), " (", dialect->title, ")");
  }
  return InvalidArgument(
      "UNKNOWN_DIALECT", "spec.dialect",
      StrCat("dialect ", number, " is unknown; use ", known));
}

// Returns the version with this number. If there is none, returns an error that
// suggests the nearest lower version (for ONNX, the last opset that changed
// TopK) or, if there is no lower version, the newest version.
Result<const OperatorVersion*> FindVersion(const Dialect& dialect,
                                           int32_t number) {
  const OperatorVersion* use = &dialect.versions.back();
  for (const OperatorVersion& version : dialect.versions) {
    if (version.version == number) return &version;
    if (version.version < number) use = &version;
  }
  return InvalidArgument("UNKNOWN_VERSION", "spec.version",
                         StrCat(dialect.title, " TopK has no version ", number,
                                "; use ", use->version, " (", use->name, ")"));
}

Status CheckAttributes(const v1::TopKRequest& request, const Dialect& dialect) {
  if (request.attributes_case() == dialect.attributes) return {};
  if (request.attributes_case() == v1::TopKRequest::ATTRIBUTES_NOT_SET) {
    return InvalidArgument(
        "ATTRIBUTES_MISSING", dialect.name,
        StrCat("spec.dialect is ", dialect.title, ", but the field ",
               dialect.name, ", which has the attributes, is not set"));
  }
  return InvalidArgument(
      "ATTRIBUTES_MISMATCH", "attributes",
      StrCat("spec.dialect is ", dialect.title, ", but the attributes are ",
             FindDialect(request.attributes_case())->title,
             "'s; set the field ", dialect.name));
}

Status SetOutputs(const v1::TopKRequest& request, PlanRequest& plan) {
  const v1::OutputOptions& output = request.output();
  if (!v1::OutputSelection_IsValid(output.selection())) {
    return InvalidArgument(
        "UNKNOWN_OUTPUT_SELECTION", "output.selection",
        StrCat("output selection ", static_cast<int>(output.selection()),
               " must be 0 (both), 1 (values) or 2 (indices)"));
  }
  if (output.has_values() || output.has_indices()) {
    return Unimplemented(
        "SHARED_MEMORY_NOT_ALLOWED",
        output.has_values() ? "output.values" : "output.indices",
        "this server does not allow shared memory "
        "(--allow-shared-memory)");
  }
  if (output.has_cuda_values() || output.has_cuda_indices()) {
    return Unimplemented(
        "CUDA_MEMORY_NOT_ALLOWED",
        output.has_cuda_values() ? "output.cuda_values" : "output.cuda_indices",
        "this server does not allow CUDA memory (--allow-cuda-memory)");
  }
  plan.wants_values = output.selection() != v1::OUTPUT_SELECTION_INDICES_ONLY;
  plan.wants_indices = output.selection() != v1::OUTPUT_SELECTION_VALUES_ONLY;
  return {};
}

}  // namespace

std::span<const Dialect* const> Dialects() { return kDialects; }

const Dialect* FindDialect(const v1::Spec& spec) {
  return Find(&Dialect::id, spec.dialect());
}

const Dialect* FindDialect(v1::TopKRequest::AttributesCase attributes) {
  return Find(&Dialect::attributes, attributes);
}

Result<Plan> Lower(const v1::TopKRequest& request, const Limits& limits) {
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return InvalidArgument("REQUEST_ID_TOO_LONG", "request_id",
                           StrCat("request_id of ", request.request_id().size(),
                                  " bytes exceeds ", kMaxRequestIdBytes));
  }
  if (!request.has_spec()) {
    return InvalidArgument("SPEC_MISSING", "spec", "spec is required");
  }
  if (!request.has_tensor()) {
    return InvalidArgument("TENSOR_MISSING", "tensor", "tensor is required");
  }
  if (request.tensor().shape_size() > limits.max_rank) {
    return ResourceExhausted(
        "RANK_TOO_HIGH", "tensor.shape",
        StrCat("a tensor of rank ", request.tensor().shape_size(),
               " exceeds the limit of ", limits.max_rank, " (--max-rank)"));
  }
  const Dialect* const dialect = FindDialect(request.spec());
  if (dialect == nullptr) {
    return UnknownDialect(static_cast<int>(request.spec().dialect()));
  }
  const Result<const OperatorVersion*> version =
      FindVersion(*dialect, request.spec().version());
  if (!version.ok()) return version.status();
  if (Status s = CheckAttributes(request, *dialect); !s.ok()) return s;

  Result<PlanRequest> plan = dialect->parse(request, **version);
  if (!plan.ok()) return plan.status();
  plan->attributes = dialect->name;
  plan->shape.assign(request.tensor().shape().begin(),
                     request.tensor().shape().end());
  plan->index_offset = request.index_offset();
  if (Status s = SetOutputs(request, *plan); !s.ok()) return s;
  return MakePlan(*plan, limits);
}

}  // namespace topk
