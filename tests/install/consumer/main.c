/* Uses the C ABI of an installed vsa. */
#include <string.h>

#include "vsa/c_api.h"

int main(void) {
  int64_t topk = 0;
  const vsa_status status = vsa_topk_from_sparsity(0.75, 128, &topk);
  return status == VSA_OK && topk == 32 && strcmp(vsa_version(), VSA_VERSION_STRING) == 0 ? 0 : 1;
}
