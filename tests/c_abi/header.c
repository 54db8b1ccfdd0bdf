// The C header compiles on its own as C11, its constants are those of C++, and every function
// links.
#include <assert.h>
#include <string.h>

#include "vsa/c_api.h"

static_assert(VSA_OK == 0 && VSA_INTERNAL == 7, "status codes are part of the ABI");
static_assert(VSA_F32 == 0 && VSA_F64 == 3, "dtypes are part of the ABI");
static_assert(sizeof(vsa_tensor) == 80 && sizeof(vsa_const_tensor) == 80, "no padding surprises");
static_assert(offsetof(vsa_attention_args, struct_size) == 0, "the size comes first");

int main(void) {
  const vsa_status outcomes[] = {vsa_tile(NULL, NULL),
                                 vsa_untile(NULL, NULL),
                                 vsa_pool(NULL, NULL),
                                 vsa_pool_backward(NULL, NULL),
                                 vsa_coarse(NULL, NULL),
                                 vsa_coarse_backward(NULL, NULL),
                                 vsa_select(NULL, NULL),
                                 vsa_fine(NULL, NULL),
                                 vsa_fine_backward(NULL, NULL),
                                 vsa_combine(NULL, NULL),
                                 vsa_combine_backward(NULL, NULL),
                                 vsa_attention_forward(NULL, NULL),
                                 vsa_attention_backward(NULL, NULL)};
  for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; ++i) {
    if (outcomes[i] != VSA_INVALID_ARGUMENT) return 1;
  }
  if (strstr(vsa_last_error(), "[attention_backward] context: ") == NULL) return 2;
  return strcmp(vsa_version(), VSA_VERSION_STRING) == 0 ? 0 : 3;
}
