#include "topk/merge.h"

#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/number_flag.h"
#include "client/cli/output.h"
#include "client/numpy/read_tensor.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

struct MergeFlags {
  std::vector<std::string> folders;
  // The k for the whole axis. The shards' files do not contain k.
  int64_t k = 0;
  int64_t axis = -1;
  bool smallest = false;
  std::string order = "value";
  ShowFlags show;
};

// Merges the responses in the folders, without calling a server.
ExitCode MergeFolders(const MergeFlags& flags) {
  std::vector<PartialResponse> partials;
  for (const std::string& folder : flags.folders) {
    PartialResponse partial;
    partial.k = flags.k;
    partial.axis = flags.axis;
    if (flags.smallest) partial.direction = Direction::kSmallest;
    if (flags.order == "index") partial.order = Order::kIndex;
    v1::Tensor size;
    for (const auto& [name, tensor] :
         {std::pair(kValuesFile, partial.response.mutable_values()),
          std::pair(kIndicesFile, partial.response.mutable_indices()),
          std::pair(kSizeFile, &size)}) {
      const std::string path = StrCat(folder, "/", name);
      Result<v1::Tensor> read = ReadTensor(path);
      if (!read.ok()) return ReportInput(path, read.status());
      *tensor = *std::move(read);
    }
    if (size.data_type() != v1::DATA_TYPE_I64 || !size.shape().empty()) {
      return ReportInput(StrCat(folder, "/", kSizeFile),
                         InvalidArgument("SIZE", "", "must be one i64"));
    }
    std::memcpy(&partial.size, size.data().data(), sizeof(partial.size));
    partials.push_back(std::move(partial));
  }
  const Result<PartialResponse> merged = Merge(partials);
  if (!merged.ok()) {
    const Status& error = merged.status();
    if (error.reason == "AXIS_RANGE") return ReportUsage(error);
    std::string folder = "folders";  // e.g. if shards overlap
    for (size_t i = 0; i < flags.folders.size(); ++i) {
      if (error.field.starts_with(StrCat("partials[", i, "]"))) {
        folder = flags.folders[i];
      }
    }
    return ReportInput(folder, error);
  }
  if (flags.k > merged->size) {
    std::cerr << "topk: --k: " << flags.k << " exceeds the size of the axis, "
              << merged->size << ": all elements are selected\n";
  }
  return Show(merged->response, static_cast<int>(merged->axis), merged->size,
              flags.show);
}

}  // namespace

void AddMerge(CLI::App& app, ExitCode& status) {
  CLI::App& command = *app.add_subcommand(
      "merge", "Merges the results of the shards of an axis");
  const auto owner = std::make_shared<MergeFlags>();
  MergeFlags& flags = *owner;
  command
      .add_option("folders", flags.folders,
                  "Folders that topk run --out wrote, one per shard, in any "
                  "order")
      ->required()
      ->type_name("DIR");
  command
      .add_option("--k", flags.k,
                  "Number of elements to select from the whole axis. Each "
                  "shard must have been computed with this k, or with its "
                  "size if that is less")
      ->required()
      ->transform(Whole(1));
  command
      .add_option("--axis", flags.axis,
                  "Dimension along which elements are selected")
      ->transform(Whole())
      ->capture_default_str();
  command.add_flag("--smallest", flags.smallest,
                   "Select the smallest elements. Set this if, and only if, "
                   "the shards were computed with --smallest: their files do "
                   "not record it");
  command.add_option("--order", flags.order, "Order of the selected elements")
      ->check(CLI::IsMember({"value", "index"}))
      ->capture_default_str();
  AddShowFlags(command, flags.show);
  command.callback([owner, &status] { status = MergeFolders(*owner); });
}

}  // namespace topk::cli
