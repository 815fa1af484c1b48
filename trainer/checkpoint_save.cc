#include <fmt/format.h>

#include <functional>
#include <tuple>

#include "program/error.h"
#include "trainer/atomic_file.h"
#include "trainer/checkpoint.h"
#include "trainer/checkpoint_folders.h"
#include "trainer/config_text.h"
#include "trainer/safetensors.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string why_not(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

SafeDType stored_as(DType dtype) {
  switch (dtype) {
    case DType::kF32: return SafeDType::kF32;
    case DType::kBF16: return SafeDType::kBF16;
    case DType::kI32: return SafeDType::kI32;
  }
  return SafeDType::kF32;
}

class Saver {
 public:
  Saver(const fs::path& directory, const Progress& progress, const Session& session, World& world)
      : checkpoint_(checkpoint_folder(directory, progress.step)),
        partial_(partial_of(checkpoint_)),
        progress_(progress),
        session_(session),
        world_(world),
        state_(state_of(build_model(session.config()))) {}

  std::string run() {
    std::string why = on_first_rank([&] {
      fs::create_directories(partial_.parent_path());
      remove_partial_checkpoints(partial_.parent_path());
      fs::create_directory(partial_);
    });
    if (why.empty()) why = write_files();
    if (why.empty()) why = on_first_rank([&] { finish(); });
    if (!why.empty() && world_.rank() == 0) {
      std::error_code ignored;  // the next one that is saved tries again
      fs::remove_all(partial_, ignored);
    }
    return why;
  }

 private:
  // Every rank learns how it went.
  std::string on_first_rank(const std::function<void()>& call) {
    return all_texts(world_, world_.rank() == 0 ? why_not(call) : "").front();
  }

  // Each rank its own; every rank learns how all went, and what there is.
  std::string write_files() {
    Json mine = Json::object();
    const std::string why = why_not([&] { mine = write_mine(); });
    if (!why.empty()) mine = {{"error", why}};
    const std::string text = mine.dump(-1, ' ', false, Json::error_handler_t::replace);
    for (const std::string& report : all_texts(world_, text)) {
      reports_.push_back(Json::parse(report));
    }
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      if (!reports_[rank].contains("error")) continue;
      return fmt::format("rank {}: {}", rank, reports_[rank]["error"].get<std::string>());
    }
    return "";
  }

  // Empty when another rank writes all that this one has.
  Json write_mine() const {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<SafeTensor> tensors;
    for (const auto& [name, tensor] : state_) {
      if (!writes(tensor, session_.mesh())) continue;
      bytes.push_back(session_.read_bytes(name));
      const int64_t elements = static_cast<int64_t>(bytes.back().size()) / size_of(tensor.dtype);
      tensors.push_back({name, stored_as(tensor.dtype), {elements}, bytes.back()});
    }
    if (tensors.empty()) return Json::object();
    const std::string name = fmt::format("rank_{:05}.safetensors", world_.rank());
    const std::string path = (partial_ / name).string();
    write_safetensors(path, std::move(tensors));
    const FileStamp stamp = stamp_of(path);
    return {{"name", name}, {"bytes", stamp.bytes}, {"xxh3", stamp.hash}};
  }

  void finish() const {
    AtomicFile file(manifest_path(partial_).string());
    file.append(to_text(manifest()));
    file.publish();
    publish_checkpoint(checkpoint_);
  }

  [[nodiscard]] Manifest manifest() const {
    Manifest manifest{.program = SPILLWAY_VERSION,
                      .step = progress_.step,
                      .position = progress_.position,
                      .mesh = session_.mesh().text(),
                      .config = to_json(session_.config())};
    std::map<int, int> file_of;  // by rank
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      const Json& report = reports_[rank];
      if (!report.contains("name")) continue;
      file_of[static_cast<int>(rank)] = static_cast<int>(manifest.files.size());
      manifest.files.push_back({report["name"], {report["bytes"], report["xxh3"]}});
    }
    std::map<std::tuple<bool, Shape, std::vector<Dim>>, int> known;
    for (const auto& [name, tensor] : state_) {
      const auto [layout, fresh] = known.emplace(
          std::tuple(tensor.divided, tensor.shape, tensor.dims), manifest.layouts.size());
      if (fresh) manifest.layouts.push_back(stored_layout(tensor, file_of));
      manifest.tensors.emplace(
          name, StoredTensor{std::string(name_of(tensor.dtype)), tensor.shape, layout->second});
    }
    return manifest;
  }

  [[nodiscard]] StoredLayout stored_layout(const StateTensor& tensor,
                                           const std::map<int, int>& file_of) const {
    StoredLayout stored;
    for (const auto& [rank, file] : file_of) {
      const Mesh theirs = session_.mesh().at(rank);
      if (writes(tensor, theirs)) stored.of_file.emplace(file, layout_on(tensor, theirs));
    }
    return stored;
  }

  fs::path checkpoint_, partial_;
  Progress progress_;
  const Session& session_;
  World& world_;
  std::map<std::string, StateTensor> state_;
  std::vector<Json> reports_;  // by rank
};

}  // namespace

std::string save_checkpoint(const fs::path& directory, const Progress& progress,
                            const Session& session, World& world) {
  return Saver(directory, progress, session, world).run();
}

}  // namespace spillway
