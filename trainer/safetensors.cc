#include "trainer/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "program/error.h"
#include "trainer/input_file.h"

namespace spillway {
namespace {

using Json = nlohmann::json;

constexpr size_t kPrefixBytes = 8;                 // the header's length
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as the format's own library

struct DTypeRow {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<DTypeRow, 7> kDTypes{
    {{"F32", 4}, {"BF16", 2}, {"F16", 2}, {"I32", 4}, {"I64", 8}, {"U8", 1}, {"F8_E4M3", 1}}};

// One entry of the header, read against the bytes behind the header.
class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& name, const Json& entry)
      : file_(file), name_(name), entry_(entry) {}

  SafeTensor read(std::span<const std::byte> data) const {
    if (!entry_.is_object()) fail("must be an object");
    SafeTensor tensor{name_, read_dtype(), read_shape(), {}};
    const auto [begin, end] = read_offsets(data.size());
    const std::optional<int64_t> bytes = byte_count(tensor);
    if (!bytes || end - begin != static_cast<uint64_t>(*bytes)) {
      fail(fmt::format("{} [{}] does not take the {} bytes of its data_offsets",
                       name_of(tensor.dtype), fmt::join(tensor.shape, ","), end - begin));
    }
    tensor.bytes = data.subspan(begin, end - begin);
    return tensor;
  }

 private:
  SafeDType read_dtype() const {
    const Json& value = field("dtype");
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    const auto row = std::ranges::find(kDTypes, name, &DTypeRow::name);
    if (row == kDTypes.end()) {
      std::vector<std::string_view> legal;
      for (const DTypeRow& known : kDTypes) legal.push_back(known.name);
      fail(fmt::format("dtype {} is none of: {}", shown(value), fmt::join(legal, ", ")));
    }
    return static_cast<SafeDType>(row - kDTypes.begin());
  }

  Shape read_shape() const {
    Shape shape;
    for (const uint64_t dim : numbers("shape")) {
      if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) fail("shape too large");
      shape.push_back(static_cast<int64_t>(dim));
    }
    return shape;
  }

  std::pair<uint64_t, uint64_t> read_offsets(uint64_t data_bytes) const {
    const std::vector<uint64_t> offsets = numbers("data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      fail("data_offsets must be [begin, end] with begin <= end");
    }
    if (offsets[1] > data_bytes) {
      fail(fmt::format("data_offsets end at {}; the file has {} bytes of data (truncated?)",
                       offsets[1], data_bytes));
    }
    return {offsets[0], offsets[1]};
  }

  // None when it does not fit 63 bits.
  static std::optional<int64_t> byte_count(const SafeTensor& tensor) {
    int64_t bytes = size_of(tensor.dtype);
    for (const int64_t dim : tensor.shape) {
      if (__builtin_mul_overflow(bytes, dim, &bytes)) return std::nullopt;
    }
    return bytes;
  }

  std::vector<uint64_t> numbers(const char* key) const {
    const Json& value = field(key);
    if (!value.is_array()) fail(fmt::format("{} must be a list", key));
    std::vector<uint64_t> result;
    for (const Json& item : value) {
      if (!item.is_number_unsigned()) {
        fail(fmt::format("{} holds {}; must be whole numbers from 0", key, shown(item)));
      }
      result.push_back(item.get<uint64_t>());
    }
    return result;
  }

  const Json& field(const char* key) const {
    const auto found = entry_.find(key);
    if (found == entry_.end()) fail(fmt::format("has no {}", key));
    return *found;
  }

  static std::string shown(const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: tensor {}: {}", file_, name_, what));
  }

  const std::string& file_;
  const std::string& name_;
  const Json& entry_;
};

// JSON takes the last of two equal keys; here the second is an error.
Json parse_unique(std::string_view text) {
  std::vector<std::set<std::string>> seen;  // by depth
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > 8) throw DataError("nested too deeply");
    if (event == Json::parse_event_t::object_start) {
      seen.resize(static_cast<size_t>(depth) + 1);
      seen.emplace_back();
    } else if (event == Json::parse_event_t::key &&
               !seen.at(depth).insert(parsed.get<std::string>()).second) {
      throw DataError(fmt::format("key {} stands twice", parsed.get<std::string>()));
    }
    return true;
  };
  return Json::parse(text, check);
}

std::string_view header_text(const std::string& path, std::span<const std::byte> file) {
  uint64_t bytes = 0;
  if (file.size() >= kPrefixBytes) std::memcpy(&bytes, file.data(), kPrefixBytes);
  if (file.size() < kPrefixBytes || bytes > file.size() - kPrefixBytes) {
    throw DataError(
        fmt::format("{}: truncated or no safetensors file: it has {} bytes; the header "
                    "should take {} behind the first 8",
                    path, file.size(), bytes));
  }
  if (bytes > kMaxHeaderBytes) {
    throw DataError(
        fmt::format("{}: a header of {} bytes; at most {}", path, bytes, kMaxHeaderBytes));
  }
  return {reinterpret_cast<const char*>(file.data()) + kPrefixBytes, bytes};
}

std::map<std::string, std::string> read_metadata(const std::string& path, const Json& entry) {
  const bool words = entry.is_object() && std::ranges::all_of(entry, [](const Json& value) {
                       return value.is_string();
                     });
  if (!words) throw DataError(fmt::format("{}: __metadata__ must map words to words", path));
  return entry.get<std::map<std::string, std::string>>();
}

// Together the tensors cover the data: no byte twice, none left out.
void check_cover(const std::string& path, const std::vector<SafeTensor>& tensors,
                 std::span<const std::byte> data) {
  const std::byte* end = data.data();
  for (const SafeTensor& tensor : tensors) {
    if (tensor.bytes.data() != end) {
      throw DataError(
          fmt::format("{}: tensor {}: begins at byte {} of the data, {} the tensor before "
                      "it ends, at {}",
                      path, tensor.name, tensor.bytes.data() - data.data(),
                      tensor.bytes.data() < end ? "before" : "after", end - data.data()));
    }
    end += tensor.bytes.size();
  }
  if (end != data.data() + data.size()) {
    throw DataError(fmt::format("{}: {} bytes of data, of which tensors take only the first {}",
                                path, data.size(), end - data.data()));
  }
}

}  // namespace

std::string_view name_of(SafeDType dtype) { return kDTypes.at(static_cast<size_t>(dtype)).name; }
int64_t size_of(SafeDType dtype) { return kDTypes.at(static_cast<size_t>(dtype)).bytes; }

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  const InputFile file(path);
  if (file.size() == 0) throw DataError(fmt::format("{} is empty", path));
  mapped_bytes_ = static_cast<size_t>(file.size());
  mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (mapped_ == MAP_FAILED) {
    throw DataError(fmt::format("cannot map {}: {}", path, std::strerror(errno)));
  }
  try {
    parse({static_cast<const std::byte*>(mapped_), mapped_bytes_});
  } catch (...) {
    munmap(mapped_, mapped_bytes_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { munmap(mapped_, mapped_bytes_); }

void SafetensorsFile::parse(std::span<const std::byte> file) {
  const std::string_view header = header_text(path_, file);
  const std::span<const std::byte> data = file.subspan(kPrefixBytes + header.size());
  Json json;
  try {
    json = parse_unique(header);
  } catch (const std::exception& error) {
    throw DataError(fmt::format("{}: header: {:.200}", path_, error.what()));
  }
  if (!json.is_object()) throw DataError(fmt::format("{}: the header is no JSON object", path_));
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      metadata_ = read_metadata(path_, entry);
    } else {
      tensors_.push_back(EntryReader(path_, name, entry).read(data));
    }
  }
  // Empty tensors before the one that begins where they do.
  std::ranges::stable_sort(tensors_, {}, [](const SafeTensor& tensor) {
    return std::pair(tensor.bytes.data(), tensor.bytes.size());
  });
  check_cover(path_, tensors_, data);
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
}

const SafeTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const SafeTensor& SafetensorsFile::at(const std::string& name) const {
  if (const SafeTensor* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  for (const SafeTensor& tensor : tensors_) names.push_back(tensor.name);
  throw DataError(fmt::format("{} has no tensor {}{}", path_, name, did_you_mean(name, names)));
}

}  // namespace spillway
