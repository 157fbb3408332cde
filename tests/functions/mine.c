/* Functions as a user would write them against the Arrow C data interface: no Arrow library is needed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

static void release(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
  free(array->buffers);
  array->release = NULL;
}

static int64_t *make_longs(struct ArrowArray *out, const struct ArrowArray *like) {
  int64_t bytes = (like->length + 7) / 8;
  const void **buffers = calloc(2, sizeof(void *));
  if (like->buffers[0]) buffers[0] = memcpy(malloc(bytes), like->buffers[0], bytes);
  buffers[1] = malloc(like->length * sizeof(int64_t) + 1);
  memset(out, 0, sizeof(*out));
  out->length = like->length;
  out->null_count = like->null_count;
  out->n_buffers = 2;
  out->buffers = buffers;
  out->release = release;
  return (int64_t *)buffers[1];
}

/* -2 * x; nulls stay null. */
int double_negative(struct ArrowArray *args, struct ArrowSchema *schemas, int64_t n_args, struct ArrowArray *out_array,
                    struct ArrowSchema *out_schema, char *error, size_t size) {
  const int64_t *in = args[0].buffers[1];
  if (n_args != 1 || strcmp(schemas[0].format, "l") || args[0].offset) {
    snprintf(error, size, "one column of longs, please");
    return 1;
  }
  int64_t *out = make_longs(out_array, &args[0]);
  for (int64_t i = 0; i < args[0].length; i++) out[i] = -2 * in[i];
  return 0;
}

/* The bytes of a string plus a number. */
int weigh(struct ArrowArray *args, struct ArrowSchema *schemas, int64_t n_args, struct ArrowArray *out_array,
          struct ArrowSchema *out_schema, char *error, size_t size) {
  const int32_t *ends = args[0].buffers[1];
  const int64_t *more = args[1].buffers[1];
  int64_t *out = make_longs(out_array, &args[0]);
  for (int64_t i = 0; i < args[0].length; i++) {
    if (more[i] < 0) {
      release(out_array);
      snprintf(error, size, "row %lld weighs less than nothing", (long long)i);
      return 22;
    }
    out[i] = ends[i + 1] - ends[i] + more[i];
  }
  return 0;
}

int nothing(struct ArrowArray *args, struct ArrowSchema *schemas, int64_t n_args, struct ArrowArray *out_array,
            struct ArrowSchema *out_schema, char *error, size_t size) {
  return 0;
}
