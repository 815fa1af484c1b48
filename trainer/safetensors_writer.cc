#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "program/error.h"
#include "trainer/atomic_file.h"
#include "trainer/safetensors.h"

namespace spillway {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

void check(const std::string& path, const std::vector<SafeTensor>& tensors) {
  std::set<std::string> names{"__metadata__"};
  for (const SafeTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw VerifyError(fmt::format("{}: two tensors are named {}", path, tensor.name));
    }
    const int64_t bytes = element_count(tensor.shape) * size_of(tensor.dtype);
    if (bytes != static_cast<int64_t>(tensor.bytes.size())) {
      throw VerifyError(fmt::format("{}: {} has {} bytes; its shape and dtype ask for {}", path,
                                    tensor.name, tensor.bytes.size(), bytes));
    }
  }
}

// Padded, so that the data behind the 8 bytes of length and the header is aligned to 8.
std::string header_of(const std::vector<SafeTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t begin = 0;
  for (const SafeTensor& tensor : tensors) {
    const size_t end = begin + tensor.bytes.size();
    header[tensor.name] = {{"dtype", std::string(name_of(tensor.dtype))},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, std::vector<SafeTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  check(path, tensors);
  std::ranges::stable_sort(tensors, std::ranges::greater(),
                           [](const SafeTensor& tensor) { return size_of(tensor.dtype); });
  const std::string header = header_of(tensors, metadata);
  const uint64_t header_bytes = header.size();
  AtomicFile file(path);
  file.append(std::as_bytes(std::span(&header_bytes, 1)));
  file.append(header);
  for (const SafeTensor& tensor : tensors) file.append(tensor.bytes);
  file.publish();
}

}  // namespace spillway
