// Checkpoints of Wan's family that are not a text-to-video transformer, told by their tensors.
#include "runtime/dit/other_models.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "runtime/io/printable.h"

namespace vsa::dit {
namespace {

/// A part of a tensor's name that only one kind of model has.
struct Mark {
  std::string_view part;
  std::string_view kind;
};

constexpr std::string_view kImage = "an image-to-video model";
constexpr std::string_view kPacked =
    "weights in 8 bits or fewer; take the bf16 or f16 file of the same model";
constexpr std::array kMarks{
    Mark{"img_emb.", kImage},
    Mark{"condition_embedder.image_embedder.", kImage},
    Mark{"cross_attn.k_img.", kImage},
    Mark{"attn2.add_k_proj.", kImage},
    Mark{"vace_", "a VACE model, which takes videos and masks"},
    Mark{"ref_conv.", "a model that takes a reference picture"},
    Mark{"control_adapter.", "a model that takes camera movements"},
    Mark{"audio_", "a speech-to-video model"},
    Mark{"motion_encoder.", "an animation model"},
    Mark{"face_adapter.", "an animation model"},
    Mark{"scaled_fp8", kPacked},
    Mark{".scale_weight", kPacked},
    Mark{".weight_scale", kPacked},
    Mark{".absmax", kPacked},
    Mark{".quant_", kPacked},
};

bool is_packed(io::StorageType type) {
  return type == io::StorageType::kF8E4M3 || type == io::StorageType::kF8E5M2 ||
         type == io::StorageType::kU8 || type == io::StorageType::kI8;
}

Status refuse(std::string_view kind, std::string_view tensor, const io::TensorView& view) {
  return unsupported(
      fmt::format("[load] transformer: expected a text-to-video model in f16, bf16 or f32, got {} "
                  "({}: {})",
                  kind, io::printable(tensor), io::to_string(view)));
}

}  // namespace

Status refuse_other_models(const io::Checkpoint& checkpoint) {
  for (const auto& [tensor, view] : checkpoint.tensors()) {
    for (const Mark& mark : kMarks) {
      if (tensor.find(mark.part) != tensor.npos) return refuse(mark.kind, tensor, view);
    }
    if (is_packed(view.type)) return refuse(kPacked, tensor, view);
  }
  return {};
}

}  // namespace vsa::dit
