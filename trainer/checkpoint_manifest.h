// What a checkpoint says of itself: manifest.json, written last.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parallel/layout.h"
#include "trainer/file_hash.h"

namespace spillway {

inline constexpr int kCheckpointFormat = 1;

// Where the elements of a tensor lie: each file that has some holds a Layout's shard of them, in the
// order of the shard, padding included.
struct StoredLayout {
  std::map<int, Layout> of_file;  // by index of the file
};

struct StoredTensor {
  std::string dtype;  // "f32", "bf16"
  Shape shape;        // of the whole
  int layout = 0;     // index into Manifest::layouts
};

struct StoredFile {
  std::string name;  // within the checkpoint's folder
  FileStamp stamp;
};

struct Manifest {
  std::string program;    // SPILLWAY_VERSION of the writer
  int64_t step = 0;       // steps done
  int64_t position = 0;   // in the data, in sequences: where the next batch begins
  std::string mesh;       // in words
  nlohmann::ordered_json config;
  std::vector<StoredFile> files;
  std::vector<StoredLayout> layouts;  // each once: a parameter and its states share one
  std::map<std::string, StoredTensor> tensors;
};

[[nodiscard]] std::filesystem::path manifest_path(const std::filesystem::path& checkpoint);
// The file's text. Its key `xxh3` is the hash of everything else in it.
[[nodiscard]] std::string to_text(const Manifest& manifest);
// Throws DataError naming the file and what is wrong: missing, no JSON, changed, another
// format.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& checkpoint);

}  // namespace spillway
