/* Part of the Octet project, under the Apache License v2.0 with LLVM
   Exceptions. See LICENSE for license information.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

   Continues several prompts at once, with the C API of Octet:

     generate [-n TOKENS] [-p PREFIX] [-w WEIGHTS] PROGRAM PROMPT...

   PROGRAM is an executable of `octet compile` or a program of `--emit program`.
   A prompt is a list of ids such as 1,2,3, or else a text. All prompts begin
   with PREFIX, which is run once: they share its pages of the KV cache. What
   comes out is what `PROGRAM run` prints. */

#include <octet/octet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 8 }; /* most prompt tokens of a sequence in a step */

/* Ends the program after an error. */
static void check(octet_status status, octet_error *error) {
  if (status == OCTET_OK)
    return;
  fputs(error ? octet_error_text(error) : "error: no memory\n", stderr);
  exit(status == OCTET_ERROR_USAGE || status == OCTET_ERROR_INTERNAL ? status
                                                                     : 1);
}

static void *allocate(size_t bytes) {
  void *memory = calloc(bytes ? bytes : 1, 1);
  if (!memory)
    check(OCTET_ERROR_MACHINE, NULL);
  return memory;
}

/* A prompt on its way. */
struct job {
  octet_seq *sequence;
  octet_decoder *decoder; /* NULL: ids are printed */
  uint64_t count;         /* tokens drawn */
  const char *finish;     /* NULL: not finished */
  char *output;           /* what is to be printed */
  size_t length, printed;
};

static void print_later(struct job *job, const char *text, size_t bytes) {
  char *longer = realloc(job->output, job->length + bytes + 1);
  if (!longer)
    check(OCTET_ERROR_MACHINE, NULL);
  memcpy(longer + job->length, text, bytes);
  job->output = longer;
  job->length += bytes;
}

/* 1,2,3 as ids; returns how many, 0 if the text is something else. */
static size_t parse_ids(const char *text, int32_t *ids) {
  size_t count = 0;
  for (;;) {
    char *end;
    long id = strtol(text, &end, 10);
    if (end == text || *text == ' ' || id < INT32_MIN || id > INT32_MAX)
      return 0;
    ids[count++] = (int32_t)id;
    if (*end == '\0')
      return count;
    if (*end != ',')
      return 0;
    text = end + 1;
  }
}

/* Appends a prompt, or a part of one. Returns whether it was a text. */
static int append(octet_seq *sequence, const octet_tokenizer *tokenizer,
                  const char *prompt) {
  octet_error *error = NULL;
  int32_t *ids = allocate(strlen(prompt) * sizeof(int32_t) + sizeof(int32_t));
  size_t count = parse_ids(prompt, ids);
  int is_text = count == 0;
  if (is_text) {
    free(ids);
    /* bos and the like belong to the beginning only. */
    check(octet_tokenizer_encode(tokenizer, prompt, strlen(prompt),
                                 octet_seq_length(sequence) == 0, &ids, &count,
                                 &error),
          error);
  }
  check(octet_seq_append(sequence, ids, count, &error), error);
  if (is_text)
    octet_free(ids);
  else
    free(ids);
  return is_text;
}

/* Runs all pending tokens; no logits are wanted. */
static void prefill(octet_model *model, octet_seq *sequence,
                    int64_t max_step_tokens) {
  octet_error *error = NULL;
  int64_t pending;
  while ((pending = octet_seq_pending(sequence)) > 0) {
    octet_entry entry = {NULL, 0, 0};
    entry.sequence = sequence;
    entry.tokens = pending < max_step_tokens ? pending : max_step_tokens;
    check(octet_step(model, &entry, 1, NULL, 0, &error), error);
  }
}

static int is_eos(const octet_model *model, int32_t id) {
  const int32_t *ids;
  size_t count = octet_model_eos(model, &ids);
  while (count--)
    if (ids[count] == id)
      return 1;
  return 0;
}

/* Draws the next token of a job from its row of logits. */
static void advance(struct job *job, uint64_t number, const octet_model *model,
                    const float *logits, const octet_limits *limits,
                    uint64_t max_tokens) {
  octet_error *error = NULL;
  int32_t id;
  const char *text;
  size_t bytes;
  char digits[16];
  /* NULL: greedy. */
  check(octet_sample(logits, limits->vocab, NULL, number, job->count++, NULL, 0,
                     &id, &error),
        error);
  if (job->decoder) {
    check(octet_decoder_push(job->decoder, id, &text, &bytes, &error), error);
    print_later(job, text, bytes);
  } else {
    bytes = (size_t)snprintf(digits, sizeof(digits), "%ld ", (long)id);
    print_later(job, digits, bytes);
  }
  if (is_eos(model, id))
    job->finish = "eos";
  else if (job->count >= max_tokens ||
           octet_seq_length(job->sequence) + 1 >= limits->max_context)
    job->finish = "length";
  else
    check(octet_seq_append(job->sequence, &id, 1, &error), error);
  if (!job->finish)
    return;

  if (job->decoder) {
    check(octet_decoder_finish(job->decoder, &text, &bytes, &error), error);
    print_later(job, text, bytes);
    print_later(job, "\n", 1);
  } else {
    bytes = (size_t)snprintf(digits, sizeof(digits), "[%s]\n", job->finish);
    print_later(job, digits, bytes);
  }
  octet_seq_free(job->sequence); /* its pages are free for the others */
  job->sequence = NULL;
}

/* One step: a token of each job that has begun, and a chunk of each prompt that
   has not, in one batch. Returns 0 if there is nothing left to do. */
static int run_step(struct job *jobs, size_t count, octet_model *model,
                    const octet_limits *limits, float *logits,
                    uint64_t max_tokens) {
  octet_error *error = NULL;
  octet_entry *entries = allocate(count * sizeof(octet_entry));
  size_t *owners = allocate(count * sizeof(size_t));
  size_t used = 0, i;
  int64_t left = limits->max_step_tokens;
  for (i = 0; i < count; ++i) {
    int64_t pending = octet_seq_pending(jobs[i].sequence);
    int64_t tokens = pending < CHUNK ? pending : CHUNK;
    if (tokens > left)
      tokens = left;
    if (jobs[i].finish || tokens == 0)
      continue;
    entries[used].sequence = jobs[i].sequence;
    entries[used].tokens = tokens;
    entries[used].outputs =
        tokens == pending; /* the row after the last token */
    owners[used++] = i;
    left -= tokens;
  }
  if (used) {
    check(octet_step(model, entries, used, logits,
                     (int64_t)count * limits->vocab, &error),
          error);
    for (i = 0; i < used; ++i) {
      if (!entries[i].outputs)
        continue;
      advance(&jobs[owners[i]], owners[i], model, logits, limits, max_tokens);
      logits += limits->vocab;
    }
  }
  free(entries);
  free(owners);
  return used > 0;
}

/* Prints jobs in their order, the first of those that are not done as it
   comes. */
static void show(struct job *jobs, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) {
    fwrite(jobs[i].output + jobs[i].printed, 1,
           jobs[i].length - jobs[i].printed, stdout);
    jobs[i].printed = jobs[i].length;
    if (!jobs[i].finish)
      break;
  }
  fflush(stdout);
}

/* A decoder that knows the prompt: it decides whether the text that follows
   begins with a space, say. */
static octet_decoder *continue_text(const octet_tokenizer *tokenizer,
                                    const octet_seq *sequence) {
  octet_error *error = NULL;
  octet_decoder *decoder;
  int64_t i;
  check(octet_decoder_create(tokenizer, 1, &decoder, &error), error);
  for (i = 0; i < octet_seq_length(sequence); ++i) {
    const char *text;
    size_t bytes;
    check(octet_decoder_push(decoder, octet_seq_tokens(sequence)[i], &text,
                             &bytes, &error),
          error);
  }
  return decoder;
}

static int usage(void) {
  fputs("usage: generate [-n TOKENS] [-p PREFIX] [-w WEIGHTS] PROGRAM "
        "PROMPT...\n",
        stderr);
  return 2;
}

int main(int argc, char **argv) {
  octet_error *error = NULL;
  octet_file *file;
  octet_model *model;
  octet_tokenizer *tokenizer = NULL;
  octet_seq *prefix;
  octet_model_options options;
  octet_limits limits;
  uint64_t max_tokens = 16;
  const char *prefix_prompt = NULL;
  struct job *jobs;
  float *logits;
  size_t count, i;
  int at = 1;

  octet_model_options_init(&options, sizeof(options));
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (!strcmp(argv[at], "-n"))
      max_tokens = strtoull(argv[at + 1], NULL, 10);
    else if (!strcmp(argv[at], "-p"))
      prefix_prompt = argv[at + 1];
    else if (!strcmp(argv[at], "-w"))
      options.weights = argv[at + 1];
    else
      return usage();
  }
  if (argc - at < 2)
    return usage();
  count = (size_t)(argc - at - 1);

  check(octet_file_open(argv[at], &file, &error), error);
  if (octet_file_has_tokenizer(file))
    check(octet_tokenizer_create(file, &tokenizer, &error), error);
  check(octet_model_load(file, &options, &model, &error), error);
  octet_file_close(file);
  octet_limits_init(&limits, sizeof(limits));
  check(octet_model_limits(model, &limits, &error), error);
  if ((int64_t)count > limits.max_sequences) {
    fprintf(stderr, "error: %lu prompts; this program runs %ld at once\n",
            (unsigned long)count, (long)limits.max_sequences);
    return 1;
  }

  check(octet_seq_create(model, &prefix, &error), error);
  if (prefix_prompt) {
    append(prefix, tokenizer, prefix_prompt);
    prefill(model, prefix, limits.max_step_tokens);
  }
  jobs = allocate(count * sizeof(struct job));
  for (i = 0; i < count; ++i) {
    check(octet_seq_fork(prefix, &jobs[i].sequence, &error), error);
    if (append(jobs[i].sequence, tokenizer, argv[at + 1 + (int)i]))
      jobs[i].decoder = continue_text(tokenizer, jobs[i].sequence);
  }
  if (prefix_prompt)
    fprintf(stderr,
            "%ld tokens are computed once, in %ld pages that all %lu "
            "prompts have\n",
            (long)octet_seq_cached(prefix),
            (long)(octet_model_pages(model) - octet_model_free_pages(model)),
            (unsigned long)count);
  octet_seq_free(prefix);

  logits = allocate(count * (size_t)limits.vocab * sizeof(float));
  while (run_step(jobs, count, model, &limits, logits, max_tokens))
    show(jobs, count);

  for (i = 0; i < count; ++i) {
    octet_decoder_free(jobs[i].decoder);
    free(jobs[i].output);
  }
  free(jobs);
  free(logits);
  octet_tokenizer_free(tokenizer);
  octet_model_free(model);
  return 0;
}
