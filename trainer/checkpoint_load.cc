#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "program/error.h"
#include "trainer/checkpoint.h"
#include "trainer/safetensors.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

void check_file(const fs::path& checkpoint, const StoredFile& file) {
  const std::string path = (checkpoint / file.name).string();
  const FileStamp found = stamp_of(path);
  if (found.bytes != file.stamp.bytes) {
    throw DataError(fmt::format("{} has {} bytes; {} were written", path, found.bytes,
                                file.stamp.bytes));
  }
  if (found.hash != file.stamp.hash) {
    throw DataError(fmt::format("{} has changed: its hash is {}; what was written has {}", path,
                                found.hash, file.stamp.hash));
  }
}

// Elements of a tensor in one file: from `at` of what the file has of it.
struct Run {
  int64_t whole, count;
  int file;
  int64_t at;
};

std::vector<Run> runs_of(const StoredLayout& stored) {
  std::vector<Run> runs;
  for (const auto& [file, layout] : stored.of_file) {
    const size_t first = runs.size();
    for_each_run(layout, [&](int64_t shard, int64_t whole, int64_t count) {
      if (runs.size() > first && runs.back().whole + runs.back().count == whole &&
          runs.back().at + runs.back().count == shard) {
        runs.back().count += count;
      } else {
        runs.push_back({whole, count, file, shard});
      }
    });
  }
  std::ranges::sort(runs, {}, &Run::whole);
  return runs;
}

class Loader {
 public:
  Loader(fs::path checkpoint, const Manifest& manifest, Session& session)
      : checkpoint_(std::move(checkpoint)), manifest_(manifest), session_(session),
        files_(manifest.files.size()) {}

  void run() {
    for (const auto& [name, tensor] : state_of(build_model(session_.config()))) load(name, tensor);
  }

 private:
  void load(const std::string& name, const StateTensor& tensor) {
    const StoredTensor& stored = manifest_.tensors.at(name);
    if (stored.layout != layout_) {  // a parameter's states follow it by name
      layout_ = stored.layout;
      runs_ = runs_of(manifest_.layouts[static_cast<size_t>(layout_)]);
    }
    const Layout mine = layout_on(tensor, session_.mesh());
    const int64_t element = size_of(tensor.dtype);
    std::vector<std::byte> bytes(static_cast<size_t>(mine.shard * element));  // padding is zero
    for_each_run(mine, [&](int64_t shard, int64_t whole, int64_t count) {
      read(name, whole, std::span(bytes).subspan(shard * element, count * element), element);
    });
    session_.write_bytes(name, bytes);
  }

  // Elements from `whole` on, from as many runs as they lie in.
  void read(const std::string& name, int64_t whole, std::span<std::byte> out, int64_t element) {
    auto run = std::ranges::upper_bound(runs_, whole, {}, &Run::whole);
    if (run != runs_.begin()) --run;
    while (!out.empty()) {
      if (run == runs_.end() || whole < run->whole || whole >= run->whole + run->count) {
        throw DataError(fmt::format("{}: no file has element {} of {}",
                                    manifest_path(checkpoint_).string(), whole, name));
      }
      const int64_t skip = whole - run->whole;
      const int64_t count =
          std::min(run->count - skip, static_cast<int64_t>(out.size()) / element);
      const std::span<const std::byte> there = bytes_in(run->file, name);
      const int64_t begin = (run->at + skip) * element, size = count * element;
      if (begin + size > static_cast<int64_t>(there.size())) {
        throw DataError(fmt::format("{}: {} in {} is shorter than its layout",
                                    manifest_path(checkpoint_).string(), name,
                                    manifest_.files[run->file].name));
      }
      std::memcpy(out.data(), there.data() + begin, static_cast<size_t>(size));
      out = out.subspan(static_cast<size_t>(size));
      whole += count;
      ++run;
    }
  }

  // Mapped: only pages that are read are fetched.
  std::span<const std::byte> bytes_in(int file, const std::string& name) {
    std::unique_ptr<SafetensorsFile>& open = files_[static_cast<size_t>(file)];
    if (!open) {
      open = std::make_unique<SafetensorsFile>((checkpoint_ / manifest_.files[file].name).string());
    }
    return open->at(name).bytes;
  }

  fs::path checkpoint_;
  const Manifest& manifest_;
  Session& session_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  int layout_ = -1;        // of manifest_.layouts; its runs by element:
  std::vector<Run> runs_;
};

}  // namespace

std::string damage_of(const fs::path& checkpoint, World& world, Manifest& manifest) {
  std::string mine;
  try {
    manifest = read_manifest(checkpoint);
    for (size_t i = world.rank(); i < manifest.files.size(); i += world.size()) {
      check_file(checkpoint, manifest.files[i]);
    }
  } catch (const DataError& error) {
    mine = error.what();
  }
  for (const std::string& damage : all_texts(world, mine)) {
    if (!damage.empty()) return damage;
  }
  return "";
}

std::string state_difference(const Manifest& manifest,
                             const std::map<std::string, StateTensor>& state) {
  for (const auto& [name, tensor] : state) {
    const auto found = manifest.tensors.find(name);
    if (found == manifest.tensors.end()) return fmt::format("it has no {}", name);
    const StoredTensor& stored = found->second;
    if (stored.dtype != name_of(tensor.dtype) || stored.shape != tensor.shape) {
      return fmt::format("it has {} as {} [{}], not {} [{}]", name, stored.dtype,
                         fmt::join(stored.shape, ","), name_of(tensor.dtype),
                         fmt::join(tensor.shape, ","));
    }
  }
  for (const auto& [name, stored] : manifest.tensors) {
    if (!state.contains(name)) return fmt::format("it has {}, which the model has not", name);
  }
  return "";
}

void load_checkpoint(const fs::path& checkpoint, const Manifest& manifest, Session& session) {
  Loader(checkpoint, manifest, session).run();
}

}  // namespace spillway
