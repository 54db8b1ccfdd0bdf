# What zsh makes of a command line when Tab is pressed: zsh -f complete.zsh FOLDER LINE, with the
# program in $VSA. In a terminal of its own, because zsh completes in no other place.
zmodload zsh/zpty
zpty shell "PS1= PS2= TERM=dumb zsh -f -i"
zpty -w shell "unsetopt zle_bracketed_paste promptcr promptsp; stty -echo; cd ${(q)1}; path=(${(q)VSA:h} \$path)"
zpty -w shell "autoload -U compinit; compinit -D -u; bindkey '^I' complete-word; LISTMAX=0"
zpty -w shell "source <(${(q)VSA} completion zsh)"
# Puts what the line became where it can be found: between two marks.
zpty -w shell 'show-line() { print -r -- "<<$BUFFER>>"; BUFFER=; zle accept-line }; zle -N show-line; bindkey "^X" show-line'
zpty -w shell 'print -r -- READY$((40+2))'
zpty -r shell answer '*READY42*'
zpty -w -n shell "$2"$'\t\C-x'
zpty -r shell answer '*<<*>>*'
print -r -- ${${answer##*<<}%%>>*}
zpty -d shell
